// Shows the dialog of a page as a modal one: the focus stays in it, and Escape or a click beside it
// leads back to the page. Without this script, the links of the dialog do that. A sheet that the page
// has opened for its errors becomes a popover, which Escape or a click beside it closes.
"use strict";

const dialog = document.querySelector("dialog.modal[open]");
const sheet = document.querySelector("dialog.sheet[open]");

if (dialog) {
  const close = dialog.querySelector("a.modal-close");

  dialog.close();
  dialog.showModal();
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    close.click();
  });
  dialog.addEventListener("click", (event) => {
    const box = dialog.getBoundingClientRect();
    const isInside = event.clientX >= box.left && event.clientX <= box.right
      && event.clientY >= box.top && event.clientY <= box.bottom;
    if (event.target === dialog && !isInside) close.click();
  });
}

if (sheet) {
  sheet.close();
  sheet.showPopover();
  // The focus begins in the first field, or at the errors, not at the button that closes the sheet.
  const first = sheet.querySelector("[autofocus]")
    ?? sheet.querySelector(":is(input:not([type=hidden]), select, textarea)");
  first?.focus();
}
