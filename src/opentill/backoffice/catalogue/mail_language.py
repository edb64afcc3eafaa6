"""What forms say of the language of mails."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "mail_language": "Language of the mail",
        "error_mail_language": "Choose one of the languages",
        "invited_mailed": "The link is on its way to them by mail. Nobody else sees it.",
        "own_language_title": "Mails to you",
        "own_language": "Language",
        "own_language_hint": "Of what is written to you alone, such as a new login, and to staff. "
        "What the team of a merchant is written is chosen in the settings of the merchant.",
        "own_language_do": "Save the language",
    },
    "zh-Hans": {
        "mail_language": "邮件语言",
        "error_mail_language": "请选择一种语言",
        "invited_mailed": "链接已通过邮件发送给对方，其他人看不到。",
        "own_language_title": "发给您的邮件",
        "own_language": "语言",
        "own_language_hint": "用于只发给您本人的邮件（例如新登录）和发给平台员工的邮件。"
        "商户团队的邮件语言在该商户的设置中选择。",
        "own_language_do": "保存语言",
    },
    "zh-Hant": {
        "mail_language": "郵件語言",
        "error_mail_language": "請選擇一種語言",
        "invited_mailed": "連結已以郵件寄送給對方，其他人看不到。",
        "own_language_title": "寄給您的郵件",
        "own_language": "語言",
        "own_language_hint": "用於只寄給您本人的郵件（例如新登入）和寄給平台員工的郵件。"
        "商家團隊的郵件語言在該商家的設定中選擇。",
        "own_language_do": "儲存語言",
    },
}
