// Shows what is typed into the form of a product or a payment link in the preview of the payment page
// beside it. Without this script the preview shows the values that were saved or sent.
"use strict";

// Removes the error of a choice that has been made since.
function forgetError(field) {
  field.removeAttribute("aria-invalid");
  if (field.getAttribute("aria-describedby") === `${field.id}-error`) {
    field.removeAttribute("aria-describedby");
  }
  document.getElementById(`${field.id}-error`)?.remove();
}

for (const preview of document.querySelectorAll(".page-preview")) {
  const form = preview.parentElement.querySelector("form[method=post]");
  const text = (name) => form.elements[name]?.value.trim() ?? "";
  const show = (name, value) => {
    const place = preview.querySelector(`[data-shows="${name}"]`);
    if (place) place.textContent = value || place.dataset.empty;
  };
  const amount = () => {
    const typed = text(text("pricing") === "open" ? "least" : "price");
    const number = Number(typed.replace(",", "."));
    if (!typed || !Number.isFinite(number)) return typed;
    const style = { style: "currency", currency: text("currency") };
    return new Intl.NumberFormat(document.documentElement.lang, style).format(number);
  };
  // Draws a chosen picture: the security policy of the page allows no address of a local file.
  const draw = async (file) => {
    const canvas = preview.querySelector("canvas");
    const stored = preview.querySelector("img");
    const picture = file ? await createImageBitmap(file).catch(() => null) : null;
    canvas.hidden = !picture;
    if (stored) stored.hidden = Boolean(picture);
    if (!picture) return;
    const scale = Math.min(canvas.width / picture.width, canvas.height / picture.height);
    const width = picture.width * scale, height = picture.height * scale;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
  };
  form.addEventListener("input", ({ target }) => {
    if (target.name === "picture") draw(target.files[0]);
    const product = form.elements.product;
    if (target === product && product.value !== "undecided") forgetError(product);
    const isChosen = product && product.value && product.value !== "undecided";
    const chosen = isChosen ? product.selectedOptions[0].textContent.split(" – ") : [];
    show("name", isChosen ? chosen[0] : text("name"));
    show("price", isChosen ? chosen[1] : amount());
    show("description", isChosen ? "" : text("description"));
  });
}
