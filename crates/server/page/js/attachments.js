// Text files that go along with a message: read, bounded, and written into the prompt.

const FILE_BYTES_MAX = 1 << 20;
const FILES_MAX = 10;
const TOTAL_BYTES_MAX = 2 << 20;

/** Reads files; returns those that are text and fit, and a sentence for each that was refused. */
export async function readFiles(files, already = []) {
  const taken = [];
  const refused = [];
  let total = already.reduce((sum, a) => sum + a.bytes, 0);
  for (const file of files) {
    if (already.length + taken.length >= FILES_MAX) {
      refused.push(`“${file.name}”: at most ${FILES_MAX} files go with one message.`);
    } else if (file.size > FILE_BYTES_MAX || total + file.size > TOTAL_BYTES_MAX) {
      const limit =
        file.size > FILE_BYTES_MAX ? `${FILE_BYTES_MAX >> 20} MB for one file` : `${TOTAL_BYTES_MAX >> 20} MB in all`;
      refused.push(`“${file.name}” is too large: the limit is ${limit}.`);
    } else {
      const text = await decode(file);
      if (text === null) {
        refused.push(`“${file.name}” is not a text file. Only text can be attached.`);
      } else {
        taken.push({ name: file.name.slice(0, 200), text, bytes: file.size });
        total += file.size;
      }
    }
  }
  return { taken, refused };
}

/** The file's text, or null if it is not UTF-8 text. */
async function decode(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

/** A user message with its files in front, each in a fence longer than any inside it. */
export function withAttachments(message) {
  const files = (message.attachments ?? []).map(({ name, text }) => {
    const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map((m) => m[0].length));
    const fence = "`".repeat(longest + 1);
    const extension = /\.([a-z0-9]{1,10})$/i.exec(name)?.[1] ?? "";
    return `File: ${name}\n${fence}${extension}\n${text.replace(/\n$/, "")}\n${fence}\n\n`;
  });
  return files.join("") + message.text;
}
