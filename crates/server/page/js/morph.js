// Makes one element's children like another's with as few changes as it can, so that what is on screen (a selection,
// a rendered formula) stays while a paragraph grows.

/** Makes the children of `from` equal to those of `to`; nodes of `to` may be moved. */
export function morph(from, to) {
  const old = [...from.childNodes];
  const wanted = [...to.childNodes];
  wanted.forEach((node, i) => {
    const present = old[i];
    if (!present) from.append(node);
    else if (!present.isEqualNode(node)) change(present, node);
  });
  for (const node of old.slice(wanted.length)) node.remove();
}

function change(present, node) {
  if (present.nodeType === Node.TEXT_NODE && node.nodeType === Node.TEXT_NODE) {
    // Appending keeps a selection where replacing would lose it.
    if (node.data.startsWith(present.data)) present.appendData(node.data.slice(present.data.length));
    else present.data = node.data;
  } else if (
    present.nodeName === node.nodeName &&
    sameAttributes(present, node) &&
    !present.classList.contains("math")
  ) {
    morph(present, node);
  } else {
    present.replaceWith(node);
  }
}

function sameAttributes(a, b) {
  return (
    a.attributes.length === b.attributes.length &&
    [...a.attributes].every(({ name, value }) => b.getAttribute(name) === value)
  );
}
