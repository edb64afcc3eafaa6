"""SQL for persons, members, staff, logins and links."""

from opentill.db.query import Command, Query, Value
from opentill.people.model import (
    AttemptCount,
    Challenge,
    Colleague,
    Link,
    Login,
    Member,
    Passkey,
    Person,
    Staff,
    Workplace,
)
from opentill.people.permissions import MERCHANT_ROLES, STAFF_ROLES, member_may, staff_may

# ── persons ──
INSERT_PERSON = Command(
    """
    insert into persons (id, email, name, password, totp_secret, totp_pending, totp_period,
        created_at, updated_at, language, confirmed)
    values (:id, :email, :name, :password, :totp_secret, :totp_pending, :totp_period, :created_at,
        :updated_at, :language, :confirmed)
    """,
)
PERSON = Query(Person, "select * from persons where id = :id")
HAS_FACTOR = Value(
    bool,
    """
    select p.totp_secret is not null or exists (select from passkeys k where k.person_id = p.id)
    from persons p where p.id = :id
    """,
)
BY_EMAIL = Query(Person, "select * from persons where email = :email")
# Locks a person. Operations that end all logins of a person take this lock too. Callers check again
# under this lock what they had checked before the transaction.
LOCKED = Query(Person, "select * from persons where id = :id for no key update")
SET_PASSWORD = Command("update persons set password = :password, updated_at = :now where id = :id")
RENEW_PASSWORD = Command("update persons set password = :password where id = :id")
# Removes the authenticator too. `service.accept_after_reset` also ends factors and logins.
SET_ANEW = Command(
    """
    update persons set name = :name, password = :password, totp_secret = null, totp_pending = null,
        confirmed = :confirmed, updated_at = :now
    where id = :id
    """,
)
SET_NAME = Command("update persons set name = :name, updated_at = :now where id = :id")
SET_EMAIL = Command("update persons set email = :email, updated_at = :now where id = :id")
SET_LANGUAGE = Command("update persons set language = :language, updated_at = :now where id = :id")

# ── second factor ──
SET_TOTP_PERIOD = Command(
    "update persons set totp_period = :period where id = :id and totp_period < :period"
)
SET_PENDING_TOTP = Command("update persons set totp_pending = :secret where id = :id")
CONFIRM_TOTP = Command(
    """
    update persons set totp_secret = :checked, totp_pending = null,
        totp_period = greatest(totp_period, :period), updated_at = :now
    where id = :id
    """,
)
REMOVE_TOTP = Command(
    """
    update persons set totp_secret = null, totp_pending = null, updated_at = :now where id = :id
    """,
)
INSERT_RECOVERY_CODES = Command(
    """
    insert into recovery_codes (person_id, code_sha256)
    select :person_id, code from unnest(:codes::bytea[]) as code
    """,
)
USE_RECOVERY_CODE = Command(
    "delete from recovery_codes where person_id = :person_id and code_sha256 = :code_sha256"
)
DELETE_RECOVERY_CODES = Command("delete from recovery_codes where person_id = :person_id")
COUNT_RECOVERY_CODES = Value(
    int, "select count(*) from recovery_codes where person_id = :person_id"
)

# ── passkeys ──
INSERT_PASSKEY = Command(
    """
    insert into passkeys (id, person_id, credential, public_key, sign_count, name, created_at,
        used_at)
    values (:id, :person_id, :credential, :public_key, :sign_count, :name, :created_at, :used_at)
    on conflict (credential) do nothing
    """,
)
PASSKEYS = Query(
    Passkey, "select * from passkeys where person_id = :person_id order by created_at, id"
)
PASSKEY = Query(Passkey, "select * from passkeys where credential = :credential")
SET_PASSKEY_USED = Command(
    "update passkeys set sign_count = :sign_count, used_at = :now where id = :id"
)
REMOVE_PASSKEYS = Command("delete from passkeys where person_id = :person_id")
REMOVE_CHALLENGES = Command("delete from passkey_challenges where person_id = :person_id")
REMOVE_PASSKEY = Command("delete from passkeys where person_id = :person_id and id = :id")
INSERT_CHALLENGE = Command(
    """
    insert into passkey_challenges (challenge, person_id, expires_at)
    values (:challenge, :person_id, :expires_at)
    """,
)
USE_CHALLENGE = Query(
    Challenge,
    """
    delete from passkey_challenges
    where challenge = :challenge and person_id is not null and expires_at > :now
    returning person_id
    """,
)
# Records that a signed challenge was used. If it is used several times at once, only one statement
# inserts the row.
INSERT_USED_CHALLENGE = Command(
    """
    insert into passkey_challenges (challenge, person_id, expires_at)
    values (:challenge, null, :expires_at) on conflict (challenge) do nothing
    """,
)
PRUNE_CHALLENGES = Command("delete from passkey_challenges where expires_at < :before")

# ── roles ──
# The last use of an account. A login that lacks the second factor of its person is no use of it.
_USED_AT = """(
    select max(l.used_at) from logins l
    where l.person_id = p.id and (l.strong or p.totp_secret is null
        and not exists (select from passkeys k where k.person_id = p.id)))"""
_MEMBER_SQL = f"""
    select m.merchant_id, m.person_id, m.role, p.email, p.name, m.created_at,
        p.totp_secret is not null or exists (select from passkeys k where k.person_id = p.id)
            as has_factor,
        {_USED_AT} as used_at
    from members m join persons p on p.id = m.person_id
"""  # noqa: S608 - interpolates constants of this program only
MEMBERS = Query(
    Member,
    f"{_MEMBER_SQL} where m.merchant_id = :merchant_id order by m.created_at, m.person_id",
)
MEMBER = Query(
    Member,
    f"{_MEMBER_SQL} where m.merchant_id = :merchant_id and m.person_id = :person_id",
)
ALL_MEMBERS = Query(Member, f"{_MEMBER_SQL} order by p.email, m.merchant_id")
SET_ROLE = Command(
    """
    update members set role = :role where merchant_id = :merchant_id and person_id = :person_id
    """,
)
SET_MEMBER = Command(
    """
    insert into members (merchant_id, person_id, role, created_at)
    values (:merchant_id, :person_id, :role, :now)
    on conflict (merchant_id, person_id) do update set role = excluded.role
    """,
)
REMOVE_MEMBER = Command(
    "delete from members where merchant_id = :merchant_id and person_id = :person_id"
)
OTHER_OWNERS = Value(
    int,
    """
    select count(*) from members
    where merchant_id = :merchant_id and role = 'owner' and person_id <> :person_id
    """,
)
WORKPLACES = Query(
    Workplace,
    """
    select m.merchant_id, r.name as merchant_name, m.role, r.time_zone,
        r.status = 'SUSPENDED' as is_suspended,
        coalesce(r.charge_off, r.refund_off, r.payout_off, '') as suspension_reason
    from members m join merchants r on r.id = m.merchant_id
    where m.person_id = :person_id and r.status <> 'CLOSED' order by r.name, m.merchant_id
    """,
)
_STAFF_SQL = """
    select s.person_id, s.role, p.email, p.name, s.created_at
    from staff s join persons p on p.id = s.person_id
"""
ALL_STAFF = Query(Staff, f"{_STAFF_SQL} order by p.email")
STAFF = Query(Staff, f"{_STAFF_SQL} where s.person_id = :person_id")
COLLEAGUES = Query(
    Colleague,
    f"""
    select s.person_id, s.role, p.email, p.name, s.created_at,
        p.totp_secret is not null or exists (select from passkeys k where k.person_id = p.id)
            as second_factor,
        {_USED_AT} as used_at
    from staff s join persons p on p.id = s.person_id order by p.email
    """,  # noqa: S608 - interpolates constants of this program only
)
# Locks all administrators, in the order of their ids, so that two cannot remove each other at once.
LOCK_ADMINS = Query(
    Staff, f"{_STAFF_SQL} where s.role = 'admin' order by s.person_id for update of s"
)
SET_STAFF = Command(
    """
    insert into staff (person_id, role, created_at) values (:person_id, :role, :now)
    on conflict (person_id) do update set role = excluded.role
    """,
)
REMOVE_STAFF = Command("delete from staff where person_id = :person_id")

# ── logins ──
_LOGIN_SQL = """
    select l.id, l.person_id, p.email, p.name, s.role as staff_role, l.created_at, l.proved_at,
        l.used_at, l.strong, l.address, l.device,
        l.merchant_id, l.refresh_sha256, l.by_link,
        p.totp_secret is not null or exists (select from passkeys k where k.person_id = p.id)
            as has_factor,
        exists (select from members m where m.person_id = p.id) as is_member
    from logins l join persons p on p.id = l.person_id left join staff s on s.person_id = p.id
"""
INSERT_LOGIN = Command(
    """
    insert into logins (id, person_id, token_sha256, created_at, proved_at, used_at, strong,
        address, device, merchant_id, refresh_sha256, by_link)
    values (:id, :person_id, :token_sha256, :now, :now, :now, :strong, :address, :device,
        :merchant_id, :refresh_sha256, :by_link)
    """,
)
# The login of a cookie. The column also has first parts of refresh tokens, which are no cookies.
LOGIN = Query(
    Login,
    f"{_LOGIN_SQL} where l.token_sha256 = :token_sha256 and l.refresh_sha256 is null",
)
LOGIN_BY_ID = Query(Login, f"{_LOGIN_SQL} where l.id = :id")
LOGIN_OF_API = Query(Login, f"{_LOGIN_SQL} where l.id = :id and l.refresh_sha256 is not null")
LOCK_REFRESHED = Query(
    Login,
    f"""
    {_LOGIN_SQL} where l.token_sha256 = :token_sha256 and l.refresh_sha256 is not null
    for update of l
    """,
)
REFRESH = Command(
    """
    update logins set refresh_sha256 = :refresh_sha256, used_at = :now, address = :address
    where id = :id
    """,
)
LOGINS = Query(
    Login,
    f"{_LOGIN_SQL} where l.person_id = :person_id order by l.used_at desc, l.id desc",
)
SET_USED = Command("update logins set used_at = :now, address = :address where id = :id")
PROVE = Command(
    """
    update logins set token_sha256 = :token_sha256, proved_at = :now, used_at = :now,
        strong = strong or :strong
    where id = :id
    """,
)
SET_BY_LINK = Command("update logins set by_link = true where id = :id")
STRENGTHEN = Command("update logins set strong = true where id = :id")
# Removes the strength of all logins of a person who has no second factor left.
WEAKEN = Command("update logins set strong = false where person_id = :person_id")
END_PENDING_LOGINS = Command("delete from logins where person_id = :person_id and not strong")
END_LOGIN = Command("delete from logins where person_id = :person_id and id = :id")
END_OTHER_LOGINS = Command("delete from logins where person_id = :person_id and id <> :but")
PRUNE_LOGINS = Command("delete from logins where used_at < :before")
# Records a new login for `mail.queries`, which reads it even if the login has ended since.
NOTE_BEGUN = Command(
    """
    insert into begun_logins (id, person_id, address, device, created_at, pending)
    select :id, p.id, :address, :device, :now, not :strong and (p.totp_secret is not null
        or exists (select from passkeys k where k.person_id = p.id))
    from persons p where p.id = :person_id
    """,
)
COMPLETE_BEGUN = Command("update begun_logins set pending = false where id = :id")
FORGET_BEGUN = Command("delete from begun_logins where id = any (:ids::text[])")
PRUNE_BEGUN = Command("delete from begun_logins where created_at < :before")
NOTE_VISIT = Value(
    bool,
    """
    insert into staff_visits (login_id, merchant_id, at) values (:login_id, :merchant_id, :now)
    on conflict do nothing returning true
    """,
)

# ── links ──
_MAKER = r"substring(created_by from '\((per_[0-9a-z]+)\)$')"  # a person's id; null: no person
_STAFF = ", ".join(f"'{role}'" for role in STAFF_ROLES if staff_may(role, "people.manage"))
_OWNERS = ", ".join(f"'{role}'" for role in MERCHANT_ROLES if member_may(role, "team.manage"))
# Condition: a link is void, because its creator has lost the permission to create it.
_IS_WITHDRAWN = f"""(
    {_MAKER} is not null
    and not exists (select from staff s where s.person_id = {_MAKER} and s.role in ({_STAFF}))
    and not exists (
        select from members m where m.merchant_id = person_links.merchant_id
            and m.person_id = {_MAKER} and m.role in ({_OWNERS})))
"""  # noqa: S608 - interpolates constants of this program only
_LINK_COLUMNS = (
    "id, kind, email, merchant_id, role, staff_role, created_by, created_at, expires_at, used_at,"
    f" {_IS_WITHDRAWN} as withdrawn, shown_to"
)
# Inserts a link, and deletes an unused one of the same kind for the same recipient.
INSERT_LINK = Query(
    Link,
    f"""
    with new_link as (
    insert into person_links (id, token_sha256, kind, email, merchant_id, role, staff_role,
        created_by, created_at, expires_at, shown_to)
    values (:id, :token_sha256, :kind, :email, :merchant_id, :role, :staff_role, :created_by,
        :now, :expires_at, :shown_to)
    on conflict (email, kind, coalesce(merchant_id, '')) where used_at is null do update set
        id = excluded.id, token_sha256 = excluded.token_sha256, role = excluded.role,
        staff_role = excluded.staff_role, created_by = excluded.created_by,
        created_at = excluded.created_at, expires_at = excluded.expires_at,
        shown_to = excluded.shown_to
    returning *
    )
    select {_LINK_COLUMNS} from new_link as person_links
    """,  # noqa: S608 - interpolates constants of this program only
)
LINK = Query(
    Link,
    f"select {_LINK_COLUMNS} from person_links where token_sha256 = :token_sha256",  # noqa: S608 - interpolates constants of this program only
)
WITHDRAW_RESETS = Command(
    "delete from person_links where email = :email and kind = 'RESET' and used_at is null"
)
# A person has at most one open link to a new password, since a new link replaces it.
OPEN_RESET = Query(
    Link,
    f"""
    select {_LINK_COLUMNS} from person_links
    where email = :email and kind = 'RESET' and used_at is null
    """,  # noqa: S608 - interpolates constants of this program only
)
# Marks a link as used. Of concurrent uses only one gets the row. ``service.use_link`` has already
# taken the locks that a concurrent removal of the link's creator holds.
USE_LINK = Query(
    Link,
    f"""
    update person_links set used_at = :now
    where token_sha256 = :token_sha256 and kind = :kind and used_at is null and expires_at > :now
        and not {_IS_WITHDRAWN}
    returning {_LINK_COLUMNS}
    """,  # noqa: S608 - interpolates constants of this program only
)
INVITATIONS = Query(
    Link,
    f"""
    select {_LINK_COLUMNS} from person_links
    where merchant_id = :merchant_id and used_at is null and expires_at > :now
    order by created_at, id
    """,  # noqa: S608 - interpolates constants of this program only
)
STAFF_INVITATIONS = Query(
    Link,
    f"""
    select {_LINK_COLUMNS} from person_links
    where staff_role is not null and used_at is null and expires_at > :now
    order by created_at, id
    """,  # noqa: S608 - interpolates constants of this program only
)
WITHDRAW_OF_STAFF = Query(
    Link,
    f"""
    delete from person_links where staff_role is not null and id = :id and used_at is null
    returning {_LINK_COLUMNS}
    """,  # noqa: S608 - interpolates constants of this program only
)
WITHDRAW = Query(
    Link,
    f"""
    delete from person_links where merchant_id = :merchant_id and id = :id and used_at is null
    returning {_LINK_COLUMNS}
    """,  # noqa: S608 - interpolates constants of this program only
)
# Whether `maker` let a person in since a time, by an invitation or a link to a new password,
# directly or through others.
WAS_LET_IN = Value(
    bool,
    f"""
    with recursive let_in (person_id) as (
        select :maker::text
        union
        select p.id from let_in
        join person_links on {_MAKER} = let_in.person_id
        join persons p on p.email = person_links.email
        where person_links.used_at > :since
    )
    select :person_id <> :maker and exists (
        select from let_in where person_id = :person_id)
    """,  # noqa: S608 - interpolates constants of this program only
)
# When business time is moved. An expired link stays expired.
POSTPONE_LINKS = Command(
    "update person_links set expires_at = expires_at + :by_ms"
    " where used_at is null and expires_at > :now"
)
SHORTEN_LINKS = Command(
    "update person_links set expires_at = :latest where used_at is null and expires_at > :latest"
)
PRUNE_LINKS = Command("delete from person_links where expires_at < :before")

# ── limits ──
# Counts an attempt under each subject before the attempt is made. A subject that must wait is not
# returned: then the caller rolls back. A subject without a delay has the time 0 and not the time of
# its last request, since requests that wait for each other's counts may overtake each other.
COUNT_ATTEMPT = Query(
    AttemptCount,
    """
    with counted as (
        insert into login_limits as l (subject, failures, next_at, last_at)
        select subject, 1, 0, :now
        from unnest(:subjects::text[]) as subject order by subject
        on conflict (subject) do update set
            failures = case when l.last_at < :forgotten then 1 else l.failures + 1 end,
            last_at = :now
        where l.next_at <= :now or l.last_at < :forgotten or not :waits::boolean
        returning l.subject, l.failures
    )
    select subject, failures from counted
    """,
)
SET_DELAYS = Command(
    """
    update login_limits l set next_at = case
        when l.failures <= d.free then 0
        else :now
            + least(d.longest_ms, 1000 * (2 ^ least(l.failures - d.free - 1, 20))::bigint) end
    from unnest(:subjects::text[], :free::int[], :longest_ms::bigint[])
        as d (subjects, free, longest_ms)
    where l.subject = d.subjects
    """,
)
WAIT = Value(
    int,
    """
    select coalesce(max(next_at), 0) from login_limits where subject = any (:subjects::text[])
    """,
)
UNCOUNT_FAILURE = Command(
    """
    update login_limits set failures = greatest(failures - 1, 0), next_at = 0
    where subject = any (:subjects::text[])
    """,
)
FAILURES = Value(int, "select failures from login_limits where subject = :subject")
FORGET_ATTEMPTS = Command("delete from login_limits where subject = any (:subjects::text[])")
PRUNE_LIMITS = Command("delete from login_limits where last_at < :before")
