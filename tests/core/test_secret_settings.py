"""Secrets among the settings: from files, in URLs and in errors."""

import os
from pathlib import Path

import pytest
from asyncpg.connect_utils import _ConnectionParameters as ConnectionParameters
from asyncpg.connect_utils import _parse_connect_dsn_and_args

from opentill import config
from opentill.config import SETTINGS, SettingError, load
from opentill.gateways import masked_settings

KEY = "k" * 32
DATABASE = {"OPENTILL_DATABASE_URL": "postgresql://u:pw@db/x", "OPENTILL_SECRET_KEY": KEY}
SECRETS = {
    "OPENTILL_SANDBOX_SECRET": "bank-secret-bank-secret-bank-secret",
    "OPENTILL_METRICS_TOKEN": "token-token-token",
}
IN_FILES = [
    # Each row: variable, content of the file, field of the settings, its value.
    ("SECRET_KEY", KEY + "\n", "secret_key", KEY),
    ("SANDBOX_SECRET", KEY, "sandbox_secret", KEY),
    ("METRICS_TOKEN", KEY + "\n\n", "metrics_token", KEY),
    ("SMTP_URL", "smtps://me:x@mail.test\n", "smtp_url", "smtps://me:x@mail.test"),
    ("SMTP_URL", "smtps://me:x@fa\u00df.de:465", "smtp_url", "smtps://me:x@xn--fa-hia.de:465"),
    ("DATABASE_URL", "postgresql://u:pw@db/x\n", "database_url", "postgresql://u:pw@db/x"),
    ("DATABASE_READ_URL", "postgresql://r/x", "database_read_url", "postgresql://r/x"),
    ("DATABASE_PASSWORD", " pass\n", "database_password", " pass"),
    ("DATABASE_PASSWORD", "pass\r\n", "database_password", "pass"),
    ("GATEWAY_EPAY_KEY", "key\n", "gateway_options", {"epay_key": "key"}),
    ("GATEWAY_ACME_TOKEN", "key", "gateway_options", {"acme_token": "key"}),
]


@pytest.mark.parametrize(("variable", "content", "field", "value"), IN_FILES)
def test_a_secret_is_read_from_a_file(
    tmp_path: Path, variable: str, content: str, field: str, value: object
) -> None:
    (tmp_path / "secret").write_bytes(content.encode())
    environ = {f"OPENTILL_{variable}_FILE": str(tmp_path / "secret")}
    others = {} if variable.startswith(("DATABASE_URL", "SECRET")) else DATABASE
    if variable == "DATABASE_PASSWORD":
        others = DATABASE | {"OPENTILL_DATABASE_URL": "postgresql://u@db/x"}
    if variable == "SMTP_URL":
        others = DATABASE | {"OPENTILL_MAIL_FROM": "pay@example.com"}
    others = others or {"OPENTILL_SECRET_KEY": KEY} if variable != "SECRET_KEY" else {}
    assert getattr(load(others | environ), field) == value
    assert config.warn_about_unknown_variables(environ) == []


def test_a_secret_is_read_through_symbolic_links(tmp_path: Path) -> None:
    """Kubernetes mounts secrets behind links."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "key").write_text(KEY)
    (tmp_path / "key").symlink_to(tmp_path / "..data" / "key")
    assert load({"OPENTILL_SECRET_KEY_FILE": str(tmp_path / "key")}).secret_key == KEY


def test_every_secret_setting_can_be_read_from_a_file() -> None:
    secret = [row for row in SETTINGS if row.secret]
    assert {row.field.upper() for row in secret} <= {row[0] for row in IN_FILES}
    explained = {variable: text for variable, _, text in masked_settings.masked_rows(load({}))}
    assert all(f"{row.name}_FILE" in explained[row.name] for row in secret)
    public = next(row for row in SETTINGS if not row.secret)
    assert config.warn_about_unknown_variables({f"{public.name}_FILE": "x"}) != []


NO_SECRET_FILES = [
    # Each row: what is wrong with OPENTILL_SECRET_KEY_FILE, part of the error.
    ("does not exist", "which cannot be read: No such file"),
    ("is a directory", "which cannot be read: Is a directory"),
    ("is a FIFO", "which is no regular file, nor a link to one"),
    ("is a link to a device", "which is no regular file, nor a link to one"),
    ("is too long", "which is longer than 65536 bytes"),
    ("is empty", "which holds no text"),
    ("is binary", "which holds no text"),
    ("is too short", "is not acceptable; it must be"),
    ("has two lines", "is not acceptable; it must be"),
    ("with the variable", "OPENTILL_SECRET_KEY and OPENTILL_SECRET_KEY_FILE are both given"),
]


@pytest.mark.parametrize(("case", "text"), NO_SECRET_FILES, ids=[row[0] for row in NO_SECRET_FILES])
def test_an_unusable_secret_file_is_a_one_line_error(tmp_path: Path, case: str, text: str) -> None:
    path = tmp_path / "key"
    environ = {"OPENTILL_SECRET_KEY_FILE": str(path)}
    match case:
        case "is a directory":
            path.mkdir()
        case "is a FIFO":
            os.mkfifo(path)
        case "is a link to a device":
            path.symlink_to("/dev/zero")
        case "is too long":
            path.write_text(KEY * 10_000)
        case "is empty":
            path.write_text("\n")
        case "is binary":
            path.write_bytes(b"\xff" * 40)
        case "is too short":
            path.write_text("hunter2")
        case "has two lines":
            path.write_text(f"{KEY}\n{KEY}")
        case "with the variable":
            path.write_text(KEY)
            environ["OPENTILL_SECRET_KEY"] = KEY
    with pytest.raises(SettingError) as caught:
        load(environ)
    line = str(caught.value)
    assert line.startswith("OPENTILL_SECRET_KEY")
    assert text in line
    assert "OPENTILL_SECRET_KEY_FILE" in line or str(path) in line
    assert "hunter2" not in line
    assert KEY not in line
    assert "\n" not in line


STRANGE = "p@ss/w:rd#%41 ?&='\"$x\\+ü"
ADDRESSES = [
    "postgresql://u@db/x",
    "postgresql://u@db1:5432,db2:5432/x?target_session_attrs=read-write",
    "postgresql:///x?host=%2Frun%2Fpostgresql&user=u",
    "postgresql://u@db/x?",
    "postgresql://u@db/x?sslmode=disable&",
]


def asyncpg_arguments(url: str) -> ConnectionParameters:
    """Return asyncpg's interpretation of a URL; raises asyncpg's errors."""
    _, parameters = _parse_connect_dsn_and_args(
        dsn=url, host=None, port=None, user=None, password=None, passfile=None,
        database=None, ssl=None, service=None, servicefile=None, direct_tls=None,
        server_settings=None, target_session_attrs=None, krbsrvname=None, gsslib=None,
    )  # fmt: skip
    return parameters


@pytest.mark.parametrize("url", ADDRESSES)
def test_a_separate_password_may_have_any_character(url: str) -> None:
    environ = DATABASE | {"OPENTILL_DATABASE_URL": url, "OPENTILL_DATABASE_READ_URL": url}
    settings = load(environ | {"OPENTILL_DATABASE_PASSWORD": STRANGE})
    for address in (settings.database_url, settings.database_read_url):
        assert address is not None
        parameters = asyncpg_arguments(address)
        assert (parameters.user, parameters.password, parameters.database) == ("u", STRANGE, "x")
    assert "p@ss" not in str(masked_settings.masked_rows(settings)) + repr(settings)


READABLE = [
    # asyncpg accepts each of these URLs
    "postgresql://db",
    "postgresql://db/x",
    "postgres://u:pw@db:5432/x",
    "postgresql://u:p%40s%2Fs%3Fw%23@db:5432/x",
    "postgresql://u:p:w=&$!*'()+,;~-._%3a@db/x",
    "postgresql://u:@db/x",
    "postgresql://:pw@db/x",
    "postgresql://u@:5432/x",
    "postgresql://u@db:/x",
    "postgresql://u:pw@db1:5432,db2:5433,db3/x?target_session_attrs=read-write",
    "postgresql://u:pw@[::1]:5432/x",
    "postgresql://u:pw@[fe80::1]/x",
    "postgresql://u:pw@%2Frun%2Fpostgresql/x",
    "postgresql:///x?host=/run/postgresql&port=5433",
    "postgresql://u@/x?host=/run/postgresql",
    "postgresql://?host=db1,db2&user=u&password=p@s/s?w==",
    "postgresql://u@db/x?sslmode=require&application_name=till&options=-c%20work_mem%3D9MB",
    "postgresql://u@db/name@of/a:database",
    "postgresql://db:5432",
    "postgresql://u@db/x?application_name=why?",
]


@pytest.mark.parametrize("url", READABLE)
def test_database_urls_that_asyncpg_accepts_are_accepted(url: str) -> None:
    asyncpg_arguments(url)
    assert load(DATABASE | {"OPENTILL_DATABASE_URL": url}).database_url == url


@pytest.mark.parametrize("password", ["", STRANGE])
@pytest.mark.parametrize("end", ["?", "?&", "?sslmode=disable&", "?&sslmode=disable&&"])
def test_separators_without_parameters_are_removed_from_a_database_url(
    end: str, password: str
) -> None:
    url = f"postgresql://u@db/x{end}"
    environ = DATABASE | {"OPENTILL_DATABASE_URL": url, "OPENTILL_DATABASE_READ_URL": url}
    settings = load(environ | {"OPENTILL_DATABASE_PASSWORD": password})
    for address in (settings.database_url, settings.database_read_url):
        parameters = asyncpg_arguments(address or "")
        assert (parameters.password or "", parameters.database) == (password, "x")


UNESCAPED = [
    # Each row: a URL whose password needs percent-encoding, and a part of the password that must
    # not be shown.
    ("postgresql://opentill:s3cr/etpw@db:5432/opentill", "s3cr"),
    ("postgresql://opentill:1234/etpw@db:5432/opentill", "etpw"),
    ("postgresql://opentill:/etpw@db:5432/opentill", "etpw"),
    ("postgresql://opentill:s3cr?etpw@db:5432/opentill", "etpw"),
    ("postgresql://opentill:1234?etpw@db:5432/opentill", "etpw"),
    ("postgresql://opentill:s3cr?et=pw@db:5432/opentill", "s3cr"),
    ("postgresql://u:pa@ss:etpw@db/x", "etpw"),
    ("postgresql://u:pa@ss@db/x", "ss@"),
    ("postgresql://u:pw@etpw@db1:5432,db2:5432/x", "etpw"),
    ("postgresql://u:pa[ss@db/x", "pa["),
    ("postgresql://u@db/x?password=etpw&more", "etpw"),
    ("postgresql://u@db/x?password=etpw&&user=u", "etpw"),
    ("postgresql://u:etpw@db:5432x/x", "etpw"),
    ("postgresql://u:etpw@db:99999/x", "etpw"),
    ("postgresql://u:etpw@db,/x", "etpw"),
]


@pytest.mark.parametrize("name", ["DATABASE_URL", "DATABASE_READ_URL"])
@pytest.mark.parametrize(("url", "part"), UNESCAPED)
def test_an_unencoded_password_is_refused_and_not_shown(name: str, url: str, part: str) -> None:
    with pytest.raises(SettingError) as caught:
        load(DATABASE | {f"OPENTILL_{name}": url})
    line = str(caught.value)
    assert line.startswith(f"OPENTILL_{name} is not acceptable")
    assert "percent-encoded, or in OPENTILL_DATABASE_PASSWORD" in line
    assert part not in line


def test_errors_never_repeat_a_secret() -> None:
    for variable, text in (("SECRET_KEY", "hunter2"), ("DATABASE_URL", "mysql://u:hunter2@x")):
        with pytest.raises(SettingError) as caught:
            load({f"OPENTILL_{variable}": text})
        assert "hunter2" not in str(caught.value)
    settings = load(DATABASE | SECRETS)
    output = str(masked_settings.masked_rows(settings)) + repr(settings)
    for secret in (KEY, "pw@db", *SECRETS.values()):
        assert secret not in output
