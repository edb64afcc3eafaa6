// A button beside each field with data-copy that copies it. Without this script a field can be
// selected and copied.
"use strict";

for (const field of document.querySelectorAll("input[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button plain";
  button.textContent = field.dataset.copy;
  const said = document.createElement("span");
  said.className = "off-page";
  said.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    field.select();
    try {
      if (navigator.clipboard) await navigator.clipboard.writeText(field.value);
      else if (!document.execCommand("copy")) return; // plain http has no clipboard
    } catch {
      return; // the field is selected, ready to be copied
    }
    button.textContent = said.textContent = field.dataset.copied;
    setTimeout(() => { button.textContent = field.dataset.copy; said.textContent = ""; }, 2000);
  });
  field.after(button, said);
}
