// Conversations in IndexedDB, one record each. The page keeps all of them in memory and writes through.

const NAME = "zinc-chat";
const STORE = "conversations";

let opened = null;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

async function transact(mode, work) {
  const database = await open();
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(STORE, mode);
    const request = work(transaction.objectStore(STORE));
    // Said at once, a write outlives the page that asked for it; left to the end of the request, a reload undoes it.
    if (mode === "readwrite") transaction.commit();
    transaction.oncomplete = () => resolve(request?.result);
    transaction.onabort = () => reject(transaction.error);
    transaction.onerror = () => reject(transaction.error);
  });
}

export const readAll = () => transact("readonly", (store) => store.getAll());
export const readOne = (id) => transact("readonly", (store) => store.get(id));
export const write = (conversation) => transact("readwrite", (store) => store.put(conversation));
export const remove = (id) => transact("readwrite", (store) => store.delete(id));
export const removeAll = () => transact("readwrite", (store) => store.clear());

/** What to tell the user when a write has failed. */
export function explainStorage(error) {
  if (error?.name === "QuotaExceededError") {
    return "The browser's storage for this page is full: new messages are not saved. Export what you need, then delete chats.";
  }
  const reason = error?.message ?? error;
  return `Chats cannot be saved in this browser (${reason}). They last as long as this tab; export what you want to keep.`;
}
