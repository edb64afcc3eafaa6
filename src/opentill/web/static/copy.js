// Adds a copy button beside each element with data-copy: a field, or the short form of an id whose
// whole text is in data-value. With data-short, the name of the button does not repeat that text; with
// data-button, the button shows its name; with data-main, it is the main button of the page.
// Without this script readers select the text and copy it themselves.
"use strict";

// Copies a text, and returns whether it was copied.
async function copyText(text) {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
    const area = document.createElement("textarea"); // no clipboard API over http
    area.value = text;
    area.className = "off-page";
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    return isCopied;
  } catch {
    return false;
  }
}

for (const place of document.querySelectorAll("[data-copy]")) {
  const isField = place.matches("input");
  const isNamed = isField || "button" in place.dataset;
  const button = document.createElement("button");
  button.type = "button";
  button.className = !isNamed ? "copy" : "main" in place.dataset ? "button" : "button plain";
  const icon = document.createElement("span");
  icon.className = "icon icon-copy";
  icon.setAttribute("aria-hidden", "true");
  const announcement = document.createElement("span");
  announcement.className = "off-page";
  announcement.setAttribute("role", "status");
  if (isNamed) {
    button.textContent = place.dataset.copy;
  } else {
    button.append(icon);
    button.title = place.dataset.copy;
    const value = "short" in place.dataset ? "" : ` ${place.dataset.value}`;
    button.setAttribute("aria-label", place.dataset.copy + value);
  }
  button.addEventListener("click", async () => {
    if (isField) place.select();
    const isCopied = await copyText(isField ? place.value : place.dataset.value);
    if (isField) place.select(); // if it was not copied, the reader can copy the selection
    if (!isCopied) return;
    announcement.textContent = place.dataset.copied;
    if (isNamed) button.textContent = place.dataset.copied;
    else icon.className = "icon icon-check";
    button.focus();
    setTimeout(() => {
      announcement.textContent = "";
      if (isNamed) button.textContent = place.dataset.copy;
      else icon.className = "icon icon-copy";
    }, 2000);
  });
  if (isField) place.after(button, announcement);
  else place.append(button, announcement);
}
