"""What the page of the deployment’s settings says."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "menu_settings": "Settings",
        "settings_about": "As this server was started with them; what is secret is not shown. "
        "They are changed in its environment.",
        "column_variable": "Variable",
        "column_about": "What it does",
    },
    "zh-Hans": {
        "menu_settings": "设置",
        "settings_about": "以下为此服务器启动时的设置；机密内容不予显示。须在其运行环境中更改。",
        "column_variable": "变量",
        "column_about": "作用",
    },
    "zh-Hant": {
        "menu_settings": "設定",
        "settings_about": "以下為此伺服器啟動時的設定；機密內容不予顯示。須在其執行環境中變更。",
        "column_variable": "變數",
        "column_about": "作用",
    },
}
