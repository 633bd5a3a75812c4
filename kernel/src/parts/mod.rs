//! What a thread and a process keep for the layers that work on them: the data alone.

pub mod signals;
