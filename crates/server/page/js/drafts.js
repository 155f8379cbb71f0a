// What is being written but not yet sent: text (kept over a reload) and files, by conversation.

import { readFiles } from "./attachments.js";
import { tab } from "./settings.js";
import { announce, changed, state, toast } from "./store.js";

const files = new Map();

export const draftText = (conversation) => tab.get(`draft-${conversation.leaf ? conversation.id : "new"}`);
export const setDraftText = (conversation, text) =>
  tab.set(`draft-${conversation.leaf ? conversation.id : "new"}`, text);
export const draftFiles = (conversation) => files.get(conversation.id) ?? [];

export function setDraftFiles(conversation, list) {
  files.set(conversation.id, list);
  changed();
}

/** Attaches files to what is being written in the conversation on screen. */
export async function takeFiles(list) {
  const conversation = state.current;
  const { taken, refused } = await readFiles([...list], draftFiles(conversation));
  if (taken.length > 0) {
    setDraftFiles(conversation, [...draftFiles(conversation), ...taken]);
    announce(`Attached ${taken.map((f) => f.name).join(", ")}.`);
  }
  for (const sentence of refused) toast(sentence, { kind: "error" });
  document.getElementById("composer-text")?.focus();
}
