//! The space, which a proxy shares: control window, messages, files; and the thread for which it is
//! changed.

pub mod address_parts;
pub mod caller;
pub mod files;
pub mod frames_of_message;
pub mod last_mapped;
pub mod messages;
pub mod policy;
pub mod release;
pub mod space;
pub mod window_size;
