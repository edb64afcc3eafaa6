"""What the page of a forgotten password says."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "forgotten_title": "Forgotten password",
        "forgotten_link": "Forgotten your password?",
        "forgotten_text": "Enter the address that you log in with. We mail you a link by "
        "which you choose a new password.",
        "forgotten_do": "Mail me a link",
        "forgotten_sent": "If somebody logs in with this address, a link is on its way to "
        "it. It works once, for 24 hours.",
        "forgotten_back": "Back to the login",
        "forgotten_error": "Enter an e-mail address such as name@example.com",
    },
    "zh-Hans": {
        "forgotten_title": "忘记密码",
        "forgotten_link": "忘记密码？",
        "forgotten_text": "请填写您登录所用的邮箱。我们会发送一个链接，供您设置新密码。",
        "forgotten_do": "发送链接",
        "forgotten_sent": "如果有人使用此邮箱登录，链接已在发送途中。链接仅可使用一次，24 "
        "小时内有效。",
        "forgotten_back": "返回登录",
        "forgotten_error": "请填写电子邮箱，例如 name@example.com",
    },
    "zh-Hant": {
        "forgotten_title": "忘記密碼",
        "forgotten_link": "忘記密碼？",
        "forgotten_text": "請填寫您登入所用的電子郵件。我們會寄送一個連結，供您設定新密碼。",
        "forgotten_do": "寄送連結",
        "forgotten_sent": "如果有人使用此電子郵件登入，連結已在寄送途中。連結僅可使用一次，"
        "24 小時內有效。",
        "forgotten_back": "返回登入",
        "forgotten_error": "請填寫電子郵件，例如 name@example.com",
    },
}
