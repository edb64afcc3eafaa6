// Guards the forms of a page with several of them, each marked with data-section: the button that
// saves works after a change only, and the browser asks before the changes of another form are lost.
"use strict";

const sections = [...document.querySelectorAll("form[data-section]")];
let sent = null;

function fields(form) {
  return JSON.stringify([...new FormData(form)].filter(([, value]) => typeof value === "string"));
}

const first = new Map(sections.map((form) => [form, fields(form)]));
const isChanged = (form) => fields(form) !== first.get(form);

function update(form) {
  // A form that the server has refused can be sent again as it is.
  const isRefused = form.querySelector("[aria-invalid]") !== null;
  form.querySelector("button.button:not(.plain)").disabled = !isRefused && !isChanged(form);
}

for (const form of sections) {
  form.addEventListener("input", () => update(form));
  form.addEventListener("change", () => update(form));
  form.addEventListener("submit", () => { sent = form; });
}
// The back button may show the page with what was typed.
addEventListener("pageshow", () => {
  sent = null;
  sections.forEach(update);
});
addEventListener("beforeunload", (event) => {
  if (sections.some((form) => form !== sent && isChanged(form))) event.preventDefault();
  sent = null; // if the person stays, all changes are guarded again
});
