//! Errors, with the next step in the sentence.

use rustix::io::Errno;

/// A failure, as one sentence for the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device is not there.
    #[error("no /dev/hanare: the module is not loaded (next: modprobe hanare, or: hanare doctor)")]
    NotLoaded,
    /// The device may not be opened.
    #[error(
        "/dev/hanare: permission denied: your user is not in the device's group (next: sudo usermod -aG hanare USER, and log in again)"
    )]
    Permission,
    /// Opening the device failed in another way.
    #[error("/dev/hanare: {}", describe(*.0))]
    Open(Errno),
    /// The device is not Hanare's.
    #[error("/dev/hanare does not belong to Hanare's module (next: rmmod the other module)")]
    Foreign,
    /// Module and tool do not fit together.
    #[error(
        "the loaded module has interface version {module:#x}, this program has {ours:#x}: install both \
         from the same release, then: hanare shutdown --all; rmmod hanare; modprobe hanare"
    )]
    Version {
        /// The version of the module's ABI.
        module: u32,
        /// The version of this crate's ABI.
        ours: u32,
    },
    /// The module said no, and why.
    #[error("{message}")]
    Refused {
        /// Sentence of the module.
        message: String,
        /// Errno of the ioctl.
        errno: Errno,
    },
    /// The module said no without a sentence.
    #[error("cannot {what}: {}", describe(*errno))]
    Failed {
        /// Action that failed.
        what: &'static str,
        /// Errno of the action.
        errno: Errno,
    },
    /// A process cannot be observed.
    #[error("{}", of_process(*pid, *errno))]
    Process {
        /// Process id.
        pid: u32,
        /// The errno that says why not.
        errno: Errno,
    },
    /// No instance of that name.
    #[error("no instance is called '{0}' (see: hanare ls)")]
    NoInstance(String),
    /// A name that cannot be one.
    #[error(
        "'{0}' cannot be an instance name: use 1 to 31 letters, digits, '-', '_' or '.', first a letter or digit"
    )]
    Name(String),
    /// Boot options that do not fit.
    #[error("the boot options take {0} bytes; at most 255 are possible")]
    Options(usize),
}

/// A result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The errno behind the error, if there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Open(errno)
            | Self::Refused { errno, .. }
            | Self::Failed { errno, .. }
            | Self::Process { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// From a refusal: the module's message if it left one.
    pub(crate) fn refused(what: &'static str, errno: Errno, message: &[u8]) -> Self {
        match crate::text::from_bytes(message) {
            message if message.is_empty() => Self::Failed { what, errno },
            message => Self::Refused { message, errno },
        }
    }

    /// From a refusal of something that names an instance and has no message.
    pub(crate) fn of_instance(what: &'static str, errno: Errno, name: &str) -> Self {
        match errno {
            Errno::NOENT => Self::NoInstance(name.into()),
            errno => Self::Failed { what, errno },
        }
    }
}

fn of_process(pid: u32, errno: Errno) -> String {
    match errno {
        Errno::NOENT => format!("there is no process {pid} (next: ps, to find it)"),
        Errno::SRCH => format!(
            "process {pid} does not run on an LWK (next: strace or gdb, which serve programs on Linux)"
        ),
        Errno::ACCESS | Errno::PERM => format!(
            "process {pid}: permission denied: it is another user's, or Linux forbids ptrace (next: sudo; see \
             /proc/sys/kernel/yama/ptrace_scope)"
        ),
        errno => format!("process {pid}: {}", describe(errno)),
    }
}

/// The errno's text, and what to do where that is known.
fn describe(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    match errno {
        Errno::PERM => format!("{text}: this needs root (CAP_SYS_ADMIN)"),
        Errno::IO => format!("{text}: the LWK stopped working (see: hanare log)"),
        Errno::NOTTY => format!("{text}: the module does not know this call"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_sentence_is_kept() {
        let error = Error::refused("take CPU 3", Errno::BUSY, b"CPU 3 belongs to 'blue'\0junk");
        assert_eq!(error.to_string(), "CPU 3 belongs to 'blue'");
        assert_eq!(error.errno(), Some(Errno::BUSY));
    }

    #[test]
    fn without_a_sentence_the_errno_is_named() {
        let error = Error::refused("boot the LWK", Errno::PERM, &[0; 200]);
        assert_eq!(
            error.to_string(),
            "cannot boot the LWK: Operation not permitted: this needs root (CAP_SYS_ADMIN)"
        );
    }

    #[test]
    fn an_unknown_instance_is_named() {
        let error = Error::of_instance("read the log", Errno::NOENT, "blue");
        assert_eq!(error.to_string(), "no instance is called 'blue' (see: hanare ls)");
    }

    #[test]
    fn versions_are_both_named() {
        let text = Error::Version { module: 3, ours: 0xf }.to_string();
        assert!(text.contains("version 0x3") && text.contains("has 0xf") && text.contains("rmmod"));
    }
}
