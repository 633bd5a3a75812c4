//! Linux' error numbers (x86-64), with names and texts.

use core::fmt;

use linux_raw_sys::errno;

/// A Linux error number, positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(u16);

/// Result of a system call: its value, or an error number.
pub type Result<T> = core::result::Result<T, Errno>;

impl Errno {
    /// Error of a call that only a kept proxy may make: Linux' other name for EOPNOTSUPP.
    pub const ENOTSUP: Self = Self::EOPNOTSUPP;

    /// Splits what the `syscall` instruction leaves in `rax` into value and error.
    pub(crate) fn check(result: i64) -> Result<usize> {
        hanare_syscall::check(result).map(|value| value as usize).map_err(Self)
    }

    /// The number, as in `errno.h`.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => to.write_str(name),
            None => write!(to, "error {}", self.0),
        }
    }
}

/// Text and name of the error: `No such file or directory (ENOENT)`.
impl fmt::Display for Errno {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} ({self:?})", self.text())
    }
}

impl core::error::Error for Errno {}

macro_rules! errors {
    ($($name:ident $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self(errno::$name as u16);)*

            /// Name of the error, such as `ENOENT`; of a number that Linux does not have, `None`.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// Text of the error, as a C library has it: `No such file or directory`.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    _ => "Unknown error",
                }
            }
        }
    };
}

errors! {
    EPERM "Operation not permitted";
    ENOENT "No such file or directory";
    ESRCH "No such process";
    EINTR "Interrupted system call";
    EIO "Input/output error";
    ENXIO "No such device or address";
    E2BIG "Argument list too long";
    ENOEXEC "Exec format error";
    EBADF "Bad file descriptor";
    ECHILD "No child processes";
    EAGAIN "Resource temporarily unavailable";
    ENOMEM "Cannot allocate memory";
    EACCES "Permission denied";
    EFAULT "Bad address";
    ENOTBLK "Block device required";
    EBUSY "Device or resource busy";
    EEXIST "File exists";
    EXDEV "Invalid cross-device link";
    ENODEV "No such device";
    ENOTDIR "Not a directory";
    EISDIR "Is a directory";
    EINVAL "Invalid argument";
    ENFILE "Too many open files in system";
    EMFILE "Too many open files";
    ENOTTY "Inappropriate ioctl for device";
    ETXTBSY "Text file busy";
    EFBIG "File too large";
    ENOSPC "No space left on device";
    ESPIPE "Illegal seek";
    EROFS "Read-only file system";
    EMLINK "Too many links";
    EPIPE "Broken pipe";
    EDOM "Numerical argument out of domain";
    ERANGE "Numerical result out of range";
    EDEADLK "Resource deadlock avoided";
    ENAMETOOLONG "File name too long";
    ENOLCK "No locks available";
    ENOSYS "Function not implemented";
    ENOTEMPTY "Directory not empty";
    ELOOP "Too many levels of symbolic links";
    ENOMSG "No message of desired type";
    EIDRM "Identifier removed";
    ECHRNG "Channel number out of range";
    EL2NSYNC "Level 2 not synchronized";
    EL3HLT "Level 3 halted";
    EL3RST "Level 3 reset";
    ELNRNG "Link number out of range";
    EUNATCH "Protocol driver not attached";
    ENOCSI "No CSI structure available";
    EL2HLT "Level 2 halted";
    EBADE "Invalid exchange";
    EBADR "Invalid request descriptor";
    EXFULL "Exchange full";
    ENOANO "No anode";
    EBADRQC "Invalid request code";
    EBADSLT "Invalid slot";
    EBFONT "Bad font file format";
    ENOSTR "Device not a stream";
    ENODATA "No data available";
    ETIME "Timer expired";
    ENOSR "Out of streams resources";
    ENONET "Machine is not on the network";
    ENOPKG "Package not installed";
    EREMOTE "Object is remote";
    ENOLINK "Link has been severed";
    EADV "Advertise error";
    ESRMNT "Srmount error";
    ECOMM "Communication error on send";
    EPROTO "Protocol error";
    EMULTIHOP "Multihop attempted";
    EDOTDOT "RFS specific error";
    EBADMSG "Bad message";
    EOVERFLOW "Value too large for defined data type";
    ENOTUNIQ "Name not unique on network";
    EBADFD "File descriptor in bad state";
    EREMCHG "Remote address changed";
    ELIBACC "Can not access a needed shared library";
    ELIBBAD "Accessing a corrupted shared library";
    ELIBSCN ".lib section in a.out corrupted";
    ELIBMAX "Attempting to link in too many shared libraries";
    ELIBEXEC "Cannot exec a shared library directly";
    EILSEQ "Invalid or incomplete multibyte or wide character";
    ERESTART "Interrupted system call should be restarted";
    ESTRPIPE "Streams pipe error";
    EUSERS "Too many users";
    ENOTSOCK "Socket operation on non-socket";
    EDESTADDRREQ "Destination address required";
    EMSGSIZE "Message too long";
    EPROTOTYPE "Protocol wrong type for socket";
    ENOPROTOOPT "Protocol not available";
    EPROTONOSUPPORT "Protocol not supported";
    ESOCKTNOSUPPORT "Socket type not supported";
    EOPNOTSUPP "Operation not supported";
    EPFNOSUPPORT "Protocol family not supported";
    EAFNOSUPPORT "Address family not supported by protocol";
    EADDRINUSE "Address already in use";
    EADDRNOTAVAIL "Cannot assign requested address";
    ENETDOWN "Network is down";
    ENETUNREACH "Network is unreachable";
    ENETRESET "Network dropped connection on reset";
    ECONNABORTED "Software caused connection abort";
    ECONNRESET "Connection reset by peer";
    ENOBUFS "No buffer space available";
    EISCONN "Transport endpoint is already connected";
    ENOTCONN "Transport endpoint is not connected";
    ESHUTDOWN "Cannot send after transport endpoint shutdown";
    ETOOMANYREFS "Too many references: cannot splice";
    ETIMEDOUT "Connection timed out";
    ECONNREFUSED "Connection refused";
    EHOSTDOWN "Host is down";
    EHOSTUNREACH "No route to host";
    EALREADY "Operation already in progress";
    EINPROGRESS "Operation now in progress";
    ESTALE "Stale file handle";
    EUCLEAN "Structure needs cleaning";
    ENOTNAM "Not a XENIX named type file";
    ENAVAIL "No XENIX semaphores available";
    EISNAM "Is a named type file";
    EREMOTEIO "Remote I/O error";
    EDQUOT "Disk quota exceeded";
    ENOMEDIUM "No medium found";
    EMEDIUMTYPE "Wrong medium type";
    ECANCELED "Operation canceled";
    ENOKEY "Required key not available";
    EKEYEXPIRED "Key has expired";
    EKEYREVOKED "Key has been revoked";
    EKEYREJECTED "Key was rejected by service";
    EOWNERDEAD "Owner died";
    ENOTRECOVERABLE "State not recoverable";
    ERFKILL "Operation not possible due to RF-kill";
    EHWPOISON "Memory page has hardware error";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn results_are_split_at_the_largest_error() {
        assert_eq!(Errno::check(-1), Err(Errno::EPERM));
        assert_eq!(Errno::check(-4095), Err(Errno(4095)));
        assert_eq!(Errno::check(-4096), Ok((-4096_i64) as usize));
        assert_eq!(Errno::check(0), Ok(0));
        assert_eq!(Errno::check(7), Ok(7));
    }

    #[test]
    fn texts_are_those_of_the_c_library() {
        for number in 1..=133 {
            let error = Errno(number);
            let Some(name) = error.name() else {
                assert!([41, 58].contains(&number), "{number} has no name");
                continue;
            };
            let theirs = std::io::Error::from_raw_os_error(number.into()).to_string();
            assert_eq!(std::format!("{} (os error {number})", error.text()), theirs, "{name}");
        }
        assert_eq!(Errno::ENOENT.to_string(), "No such file or directory (ENOENT)");
        assert_eq!(Errno(4000).to_string(), "Unknown error (error 4000)");
    }
}
