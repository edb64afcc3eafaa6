"""Bank statements in tests, and what became of their payouts."""

import io
from decimal import Decimal

from opentill import approvals, payouts, reconciliation
from opentill.db.database import Db
from opentill.merchants import Actor
from opentill.reconciliation import BankResult
from support.payout_runs import BOB, complete_run, create_payee, download_run
from support.world import NOW, new_reference

CSV = "end_to_end_id,status,amount,currency,bank_reference,reason\r\n"
HEAD = '<?xml version="1.0"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:{0}"><{1}><{2}>'


def entry(
    end_to_end: str, amount: str = "100.00", *, credit: bool = False, ref: str = "", **fields: str
) -> str:
    """Write an entry of a statement with one transaction."""
    side = "CRDT" if credit else "DBIT"
    reason = "<RtrInf><Rsn><Cd>AC04</Cd></Rsn><AddtlInf>closed</AddtlInf></RtrInf>"
    amount_element = f'<Amt Ccy="{fields.get("currency", "EUR")}">{amount}</Amt>'
    return (
        f"<Ntry>{amount_element}<CdtDbtInd>{side}</CdtDbtInd>"
        f"<Sts><Cd>{fields.get('status', 'BOOK')}</Cd></Sts>"
        f"<AcctSvcrRef>{ref}</AcctSvcrRef><NtryDtls><TxDtls><Refs><EndToEndId>{end_to_end}"
        f"</EndToEndId></Refs>{amount_element}{reason if credit else ''}</TxDtls></NtryDtls></Ntry>"
    )


def statement(*entries: str, form: str = "camt.053.001.08") -> bytes:
    """Write a camt.053."""
    head = HEAD.format(form, "BkToCstmrStmt", "Stmt")
    return f"{head}{''.join(entries)}</Stmt></BkToCstmrStmt></Document>".encode()


async def apply(
    db: Db,
    content: bytes,
    name: str = "statement.xml",
    above: Decimal | None = None,
    actor: Actor = BOB,
) -> BankResult:
    """Read a report like the operator, with a limit above which a second person must approve."""
    file, rules = io.BytesIO(content), approvals.Rules(above, True, frozenset())
    return await reconciliation.apply_bank_report(db, file, name, actor, NOW + 10, rules=rules)


async def create_sent_payouts(db: Db, number: int = 3) -> list[payouts.Payout]:
    """Create payouts to new merchants, whose bank file was downloaded."""
    shops = [await db.run(create_payee) for _ in range(number)]
    view = await complete_run(db, new_reference())
    await download_run(db, view.run.id)
    return [(await db.read(lambda tx, s=shop: payouts.search(tx, s.id)))[0] for shop in shops]


async def read_results(db: Db, sent_payouts: list[payouts.Payout]) -> list[tuple[str, str]]:
    """Return the status of each payout, and the bank's reference or the failure reason."""
    rows = await db.read(lambda tx: payouts.find_many(tx, [payout.id for payout in sent_payouts]))
    by_id = {row.id: (row.status, row.bank_reference or row.failure_reason) for row in rows}
    return [by_id[payout.id] for payout in sent_payouts]


async def read_inbox(db: Db) -> list[tuple[str, str, str]]:
    """Return the kind of each difference, with both amounts."""
    rows = await db.read(lambda tx: reconciliation.list_differences(tx, limit=1000))
    return [(row.what, row.ours, row.theirs) for row in rows]
