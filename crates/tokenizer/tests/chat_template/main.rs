//! Chat templates against what transformers renders, against conversations that try to speak for others, and against
//! templates that try to take the machine with them.

mod attacks;
mod files;
mod forms;
mod hostile;
mod rendered;
mod support;
