// Adds a color picker beside the field of the accent color, and shows its preview while somebody
// chooses. The server draws the preview, so that the rules of contrast exist only there.
"use strict";

const field = document.getElementById("accent_color");
const preview = document.getElementById("accent-preview");

if (field && preview) {
  const picker = document.createElement("input");
  picker.type = "color";
  picker.setAttribute("aria-label", field.dataset.picker);
  let waiting = 0;

  const show = () => {
    const digits = /^#?([0-9a-f]{6})$/i.exec(field.value.trim());
    if (!digits) return; // half-typed
    const color = digits[1].toLowerCase();
    picker.value = "#" + color;
    clearTimeout(waiting);
    waiting = setTimeout(() => { preview.src = preview.dataset.path + color; }, 80);
  };

  field.addEventListener("input", show);
  picker.addEventListener("input", () => { field.value = picker.value; show(); });
  picker.value = field.value.trim() || preview.dataset.color;
  field.after(picker);
  document.getElementById("preview-button")?.remove(); // the preview follows the picker
}
