// The items of a list as the server wrote them. A webhook is signed over its exact bytes, which a
// parsed and written number such as 1.0 or 12345678901234567890 does not keep.

/** Return the text of each item of a response that is a list, which must be valid JSON. */
export function itemTexts(response: string): string[] {
  const name = response.indexOf('"items"');
  const start = response.indexOf("[", name);
  if (name < 0 || start < 0) throw new TypeError("the response is not a list");
  const texts: string[] = [];
  let depth = 0;
  let begin = start + 1;
  for (let index = start; index < response.length; index += 1) {
    const character = response[index];
    if (character === '"') {
      index = endOfString(response, index);
    } else if (character === "[" || character === "{") {
      depth += 1;
    } else if (character === "]" || character === "}") {
      depth -= 1;
    }
    if (depth === 0 || (depth === 1 && character === ",")) {
      const text = response.slice(begin, index).trim();
      if (text !== "") texts.push(text);
      begin = index + 1;
      if (depth === 0) return texts;
    }
  }
  throw new TypeError("the list has no end");
}

function endOfString(text: string, start: number): number {
  let index = start + 1;
  while (text[index] !== '"') index += text[index] === "\\" ? 2 : 1;
  return index;
}
