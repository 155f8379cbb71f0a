// Numbers and times for people.

const counts = new Intl.NumberFormat("en");

export const count = (n) => counts.format(Math.round(n));

/** 3250 -> "3.3k"; sizes of contexts, which are powers of two, as people call them: 32768 -> "32k". */
export function short(n) {
  if (n >= 1024 && n % 1024 === 0) return `${n / 1024}k`;
  if (n < 1000) return String(Math.round(n));
  return n < 100_000 ? `${(n / 1000).toFixed(1).replace(/\.0$/, "")}k` : `${Math.round(n / 1000)}k`;
}

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i += 1) n /= 1000;
  return `${n < 10 && i > 0 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export function duration(ms) {
  if (ms < 950) return `${Math.max(1, Math.round(ms))} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export const rate = (perSecond) => `${perSecond < 10 ? perSecond.toFixed(1) : count(perSecond)} tok/s`;

/** The heading under which a chat of that time is listed. */
export function day(time, now = new Date()) {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const days = Math.ceil((midnight - time) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days <= 7) return "This week";
  if (days <= 31) return "This month";
  return "Earlier";
}
