// Copies what stands in the element that a button names. Without this script there is no button.
"use strict";

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text, className: "hidden" });
  document.body.append(area); // plain http has no clipboard
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("not copied");
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  const label = button.textContent;
  const said = Object.assign(document.createElement("span"), { className: "hidden" });
  said.setAttribute("role", "status");
  button.after(said);
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await copy(document.getElementById(button.dataset.copy).textContent);
      said.textContent = button.textContent = button.dataset.copied;
    } catch {
      said.textContent = button.textContent = button.dataset.failed;
    }
    setTimeout(() => { button.textContent = label; said.textContent = ""; }, 2000);
  });
}
