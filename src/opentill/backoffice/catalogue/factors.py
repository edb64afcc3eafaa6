"""What the pages say on which a second factor is proved, and how it is kept."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "error_suspended": "Your new password is set. Without your second factor you can log in "
        "only in {wait}",
        "error_factor_needed": "Enter a code, or check that you have lost your second factors",
        "login_changed_later": "Your new password is set. You can log in once the waiting time is "
        "over: see the mail that we sent to you.",
        "login_kept": "Your second factors stay as they are. Log in with them.",
        "reset_passkey": "Set the password and use your passkey",
        "reset_other": "Without your passkey",
        "reset_lost": "I have lost all of my second factors and recovery codes",
        "reset_lost_hint": "They stop working at once. In {hours} you can log in with the new "
        "password alone. We send you a mail with a link that stops this.",
        "keep_title": "Keep your second factors",
        "keep_text": "A reset of the second factors of {email} is under way. If you "
        "still have them, or did not ask for this, stop it.",
        "keep_do": "Stop the reset",
        "factor_title": "Confirm your second factor",
        "factor_text": "Your password is correct. Use your second factor to finish logging in "
        "as {email}.",
        "factor_passkey": "Use your passkey",
        "factor_passkey_elsewhere": "Your passkey works only at this service’s own "
        "address. Use a code instead.",
        "factor_code_hint": "The six digits that your authenticator shows, or a recovery code.",
        "factor_recovery_hint": "One of the recovery codes that you were shown when you added your "
        "passkey.",
        "factor_code_do": "Use the code",
        "factor_log_out": "Log out",
        "error_factor_code": "This code is wrong or was already used",
        "error_factor_passkey": "This passkey was not accepted. Please try again",
        "error_factor": "Your password is correct. Confirm your second factor in a new tab, then "
        "come back here",
        "proof_text_factor": "Confirm your second factor again to go on. Nothing that you "
        "entered is lost.",
        "proof_passkey": "Confirm with your passkey",
        "error_last_factor": "Staff must keep a second factor here. Set up another one first, then "
        "remove this one",
        "second_by_link": "Staff need a second factor here. It can be set up only after you have "
        "followed a link: ask for a new password at the login page, or ask an "
        "administrator for a link.",
        "second_replace": "Replace the authenticator",
        "codes_section": "Recovery codes",
        "codes_left": "Recovery codes left: {count}.",
        "password_confirm": "To change your password, confirm with your passkey first.",
        "password_confirm_do": "Confirm that it is you",
    },
    "zh-Hans": {
        "error_suspended": "新密码已设置。由于未完成第二重验证，账户将在 {wait} 后才能进入",
        "error_factor_needed": "请输入验证码，或说明您已丢失第二重验证",
        "login_changed_later": "新密码已设置。等待时间结束后即可进入账户，详见发给您的邮件。",
        "login_kept": "您的第二重验证保持不变，请用它登录。",
        "reset_passkey": "设置密码并使用通行密钥",
        "reset_other": "不使用通行密钥",
        "reset_lost": "我已丢失所有第二重验证方式和恢复码",
        "reset_lost_hint": "它们立即失效。{hours}后，仅凭新密码即可进入账户。我们会写"
        "信给您，您可以停止此操作。",
        "keep_title": "保留您的第二重验证",
        "keep_text": "{email} 的第二重验证正在重置。如果您仍持有它们，或并未提出此要求，请停止。",
        "keep_do": "停止重置",
        "factor_title": "请验证您的第二重验证",
        "factor_text": "{email} 的密码正确。此账户设有第二重验证，验证后才能进入。",
        "factor_passkey": "使用通行密钥",
        "factor_passkey_elsewhere": "您的通行密钥只能在本服务自己的网址使用。"
        "请改用验证码或恢复码。",
        "factor_code_hint": "验证器显示的六位数字，或一个恢复码。",
        "factor_recovery_hint": "添加通行密钥时显示给您的恢复码之一。",
        "factor_code_do": "使用验证码",
        "factor_log_out": "退出",
        "error_factor_code": "验证码不正确，或已使用过",
        "error_factor_passkey": "此通行密钥未被接受，请重试",
        "error_factor": "密码正确。请在新标签页中完成第二重验证，然后返回此处",
        "proof_text_factor": "此操作需要再次进行第二重验证。您填写的内容不会丢失。",
        "proof_passkey": "使用通行密钥确认",
        "error_last_factor": "平台员工必须保留一种第二重验证。请先设置另一种，再移除此项",
        "second_by_link": "平台员工在此需要第二重验证。只有通过链接"
        "进入后才能设置：请在登录页申请设置新密码，或向管理员索取链接。",
        "second_replace": "更换验证器",
        "codes_section": "恢复码",
        "codes_left": "剩余恢复码：{count}。",
        "password_confirm": "更改密码前，请先用通行密钥确认。",
        "password_confirm_do": "确认是您本人",
    },
    "zh-Hant": {
        "error_suspended": "新密碼已設定。由於未完成第二重驗證，帳戶將在 {wait} 後才能進入",
        "error_factor_needed": "請輸入驗證碼，或說明您已遺失第二重驗證",
        "login_changed_later": "新密碼已設定。等待時間結束後即可進入帳戶，詳見寄給您的郵件。",
        "login_kept": "您的第二重驗證保持不變，請用它登入。",
        "reset_passkey": "設定密碼並使用通行密鑰",
        "reset_other": "不使用通行密鑰",
        "reset_lost": "我已遺失所有第二重驗證方式和復原碼",
        "reset_lost_hint": "它們立即失效。{hours}後，僅憑新密碼即可進入帳戶。我們會寫"
        "信給您，您可以停止此操作。",
        "keep_title": "保留您的第二重驗證",
        "keep_text": "{email} 的第二重驗證正在重設。如果您仍持有它們，或並未提出此要求，請停止。",
        "keep_do": "停止重設",
        "factor_title": "請驗證您的第二重驗證",
        "factor_text": "{email} 的密碼正確。此帳戶設有第二重驗證，驗證後才能進入。",
        "factor_passkey": "使用通行密鑰",
        "factor_passkey_elsewhere": "您的通行密鑰只能在本服務自己的網址使用。"
        "請改用驗證碼或復原碼。",
        "factor_code_hint": "驗證器顯示的六位數字，或一個復原碼。",
        "factor_recovery_hint": "新增通行密鑰時顯示給您的復原碼之一。",
        "factor_code_do": "使用驗證碼",
        "factor_log_out": "登出",
        "error_factor_code": "驗證碼不正確，或已使用過",
        "error_factor_passkey": "此通行密鑰未被接受，請重試",
        "error_factor": "密碼正確。請在新分頁中完成第二重驗證，然後返回此處",
        "proof_text_factor": "此操作需要再次進行第二重驗證。您填寫的內容不會遺失。",
        "proof_passkey": "使用通行密鑰確認",
        "error_last_factor": "平台員工必須保留一種第二重驗證。請先設定另一種，再移除此項",
        "second_by_link": "平台員工在此需要第二重驗證。只有透過連結"
        "進入後才能設定：請在登入頁申請設定新密碼，或向管理員索取連結。",
        "second_replace": "更換驗證器",
        "codes_section": "復原碼",
        "codes_left": "剩餘復原碼：{count}。",
        "password_confirm": "變更密碼前，請先用通行密鑰確認。",
        "password_confirm_do": "確認是您本人",
    },
}
