// Adds a copy button beside each field with data-copy. Without this script readers select the text
// and copy it themselves.
"use strict";

for (const field of document.querySelectorAll("input[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button plain";
  button.textContent = field.dataset.copy;
  const announcement = document.createElement("span");
  announcement.className = "off-page";
  announcement.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    field.select();
    try {
      if (navigator.clipboard) await navigator.clipboard.writeText(field.value);
      else if (!document.execCommand("copy")) return; // no clipboard API over http
    } catch {
      return; // the field is selected, so that the reader can copy it
    }
    button.textContent = announcement.textContent = field.dataset.copied;
    setTimeout(() => { button.textContent = field.dataset.copy; announcement.textContent = ""; }, 2000);
  });
  field.after(button, announcement);
}
