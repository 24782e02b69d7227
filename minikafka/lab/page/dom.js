"use strict";
/* Elements from data. Text is always text: nothing here parses HTML. */

const Dom = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child !== null && child !== undefined && child !== false) element.append(child);
    }
    return element;
  }

  /* html("p", {class: "note", onclick: f}, "text", element, [more]) */
  const html = (tag, attributes, ...children) =>
    fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);

  const number = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
  const count = (value) => number.format(value);
  const seconds = (value) => `${value.toFixed(value < 10 ? 4 : 3)} s`;

  /* A command in a box, with a button that copies it. */
  function command(text) {
    const code = html("code", {}, text);
    const button = html("button", {type: "button", class: "copy", "aria-label": `Copy: ${text}`},
      "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        // Not every browser lets a file write to the clipboard: leave it to the reader's keys.
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
    });
    return html("span", {class: "command"}, code, button);
  }

  return {html, svg, count, seconds, command};
})();
