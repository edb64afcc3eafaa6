"""What mails about changes of accounts say."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "change_authenticator_on": "An authenticator was set up",
        "change_authenticator_off": "The authenticator was removed",
        "change_codes": "Recovery codes were renewed",
        "change_passkey_on": "A passkey was added",
        "change_passkey_off": "A passkey was removed",
        "change_password": "The password was changed",
        "change_set_anew": "The account was set up anew",
        "change_joined": "An invitation was accepted",
        "change_role": "The role was changed",
        "change_removed": "A role was removed",
        "change_codes_wrong": "Wrong codes were entered with the right password",
        "change_factors_asked": "A reset of the second factors was asked for",
        "change_factors_begun": "A reset of the second factors has begun",
        "change_factors_stopped": "The reset of the second factors was stopped",
        "change_factors_ended": "The second factors were reset",
        "account_change_subject": "{change}",
        "account_change_text": "{change}. It is your account {email}.",
        "account_change_else": "If you did not expect this, change your password at once and "
        "contact the operator of this service.",
        "account_change_open": "See your account",
        "account_change_staff_subject": "{change}: {email}",
        "account_change_staff_text": "{change}. It is the account of somebody on the staff: "
        "{email}.",
        "account_change_staff_else": "If nobody on the staff expected this, end the person’s "
        "logins and ask them.",
        "account_change_staff_open": "See the staff",
        "factors_waiting_subject": "Your second factors are about to be reset",
        "factors_waiting_text": "Your passkeys, authenticator and recovery codes are removed on "
        "{time}. After that, you can log in with your password alone.",
        "factors_waiting_open": "Stop the reset",
        "factors_waiting_else": "If you still have your second factors, or did not ask for "
        "this, stop it.",
    },
    "zh-Hans": {
        "change_authenticator_on": "已设置验证器",
        "change_authenticator_off": "已移除验证器",
        "change_codes": "已生成新的恢复码",
        "change_passkey_on": "已添加通行密钥",
        "change_passkey_off": "已移除通行密钥",
        "change_password": "密码已更改",
        "change_set_anew": "账户已重新设置",
        "change_joined": "已接受邀请",
        "change_role": "角色已更改",
        "change_removed": "角色已移除",
        "change_codes_wrong": "密码正确但验证码多次错误",
        "change_factors_asked": "有人申请重置第二重验证",
        "change_factors_begun": "第二重验证的重置已开始",
        "change_factors_stopped": "第二重验证的重置已停止",
        "change_factors_ended": "第二重验证已重置",
        "account_change_subject": "{change}",
        "account_change_text": "{change}：您的账户 {email}。",
        "account_change_else": "如果不是您本人所为，也非您所预期，请立即设置新密码，并联系支"
        "付运营方。",
        "account_change_open": "查看您的账户",
        "account_change_staff_subject": "{change}：{email}",
        "account_change_staff_text": "{change}。这是平台员工的账户：{email}。",
        "account_change_staff_else": "如果你们都没有预期此更改，请结束其登录并询问本人。",
        "account_change_staff_open": "查看平台员工",
        "factors_waiting_subject": "您的第二重验证即将重置",
        "factors_waiting_text": "您的通行密钥、验证器和恢复码将于 {time} 移除。此后仅"
        "凭密码即可进入账户。",
        "factors_waiting_open": "停止重置",
        "factors_waiting_else": "如果您仍持有第二重验证方式，或并未提出此要求，请停止。",
    },
    "zh-Hant": {
        "change_authenticator_on": "已設定驗證器",
        "change_authenticator_off": "已移除驗證器",
        "change_codes": "已產生新的復原碼",
        "change_passkey_on": "已新增通行密鑰",
        "change_passkey_off": "已移除通行密鑰",
        "change_password": "密碼已變更",
        "change_set_anew": "帳戶已重新設定",
        "change_joined": "已接受邀請",
        "change_role": "角色已變更",
        "change_removed": "角色已移除",
        "change_codes_wrong": "密碼正確但驗證碼多次錯誤",
        "change_factors_asked": "有人申請重設第二重驗證",
        "change_factors_begun": "第二重驗證的重設已開始",
        "change_factors_stopped": "第二重驗證的重設已停止",
        "change_factors_ended": "第二重驗證已重設",
        "account_change_subject": "{change}",
        "account_change_text": "{change}：您的帳戶 {email}。",
        "account_change_else": "如果不是您本人所為，也非您所預期，請立即設定新密碼，並聯絡支"
        "付營運方。",
        "account_change_open": "檢視您的帳戶",
        "account_change_staff_subject": "{change}：{email}",
        "account_change_staff_text": "{change}。這是平台員工的帳戶：{email}。",
        "account_change_staff_else": "如果你們都沒有預期此變更，請結束其登入並詢問本人。",
        "account_change_staff_open": "檢視平台員工",
        "factors_waiting_subject": "您的第二重驗證即將重設",
        "factors_waiting_text": "您的通行密鑰、驗證器和復原碼將於 {time} 移除。此後僅"
        "憑密碼即可進入帳戶。",
        "factors_waiting_open": "停止重設",
        "factors_waiting_else": "如果您仍持有第二重驗證方式，或並未提出此要求，請停止。",
    },
}
