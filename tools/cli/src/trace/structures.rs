//! Structures in short form.

use hanare_core::syscalls::arguments::{Names, Structure};

use super::names;
use super::quote::quoted;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap_or([0; 4])))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// The structure in `bytes`, which are as many as it has.
pub fn text(structure: Structure, bytes: &[u8]) -> String {
    let signed = |at| u64_at(bytes, at) as i64;
    match structure {
        Structure::Word => format!("[{}]", u32_at(bytes, 0) as i32),
        Structure::Long => format!("[{}]", signed(0)),
        Structure::Timespec => format!("{{tv_sec={}, tv_nsec={}}}", signed(0), signed(8)),
        Structure::Timeval => format!("{{tv_sec={}, tv_usec={}}}", signed(0), signed(8)),
        Structure::TimespecPair | Structure::TimevalPair => {
            let one = if structure == Structure::TimespecPair {
                Structure::Timespec
            } else {
                Structure::Timeval
            };
            format!("[{}, {}]", text(one, &bytes[..16]), text(one, &bytes[16..]))
        }
        Structure::Stat => mode_and_size(u32_at(bytes, 24), u64_at(bytes, 48), "st_"),
        Structure::Statx => mode_and_size(u32_at(bytes, 28) & 0xffff, u64_at(bytes, 40), "stx_"),
        Structure::SignalSet => signals(u64_at(bytes, 0)),
        Structure::SignalAction => {
            let handler = match u64_at(bytes, 0) {
                0 => "SIG_DFL".into(),
                1 => "SIG_IGN".into(),
                address => format!("{address:#x}"),
            };
            format!(
                "{{sa_handler={handler}, sa_mask={}, sa_flags={:#x}}}",
                signals(u64_at(bytes, 24)),
                u64_at(bytes, 8)
            )
        }
        Structure::DescriptorPair => {
            format!("[{}, {}]", u32_at(bytes, 0) as i32, u32_at(bytes, 4) as i32)
        }
        Structure::Poll => {
            let (fd, events) = (u32_at(bytes, 0) as i32, u32_at(bytes, 4));
            match events >> 16 {
                0 => format!("{{fd={fd}, events={:#x}}}", events & 0xffff),
                seen => format!("{{fd={fd}, events={:#x}, revents={seen:#x}}}", events & 0xffff),
            }
        }
        Structure::Limit => format!(
            "{{rlim_cur={}, rlim_max={}}}",
            limit(u64_at(bytes, 0)),
            limit(u64_at(bytes, 8))
        ),
        Structure::Utsname => {
            let field = |index: usize| {
                let field = &bytes[index * 65..(index + 1) * 65];
                let text = field.split(|&byte| byte == 0).next().unwrap_or_default();
                quoted(text, text.len())
            };
            format!("{{sysname={}, nodename={}, ...}}", field(0), field(1))
        }
        Structure::EpollEvent => {
            format!("{{events={:#x}, data={:#x}}}", u32_at(bytes, 0), u64_at(bytes, 4))
        }
        Structure::Fpair => {
            format!("{{sigmask={:#x}, sigsetsize={}}}", u64_at(bytes, 0), u64_at(bytes, 8))
        }
        Structure::Bytes(_) => "{...}".into(),
    }
}

fn mode_and_size(mode: u32, size: u64, prefix: &str) -> String {
    let kind = match mode >> 12 {
        1 => "S_IFIFO",
        2 => "S_IFCHR",
        4 => "S_IFDIR",
        6 => "S_IFBLK",
        8 => "S_IFREG",
        10 => "S_IFLNK",
        12 => "S_IFSOCK",
        _ => "0",
    };
    format!("{{{prefix}mode={kind}|{:#05o}, {prefix}size={size}, ...}}", mode & 0o7777)
        .replace("0o", "0")
}

fn limit(value: u64) -> String {
    if value == u64::MAX { "RLIM64_INFINITY".into() } else { value.to_string() }
}

fn signals(set: u64) -> String {
    let list = |set: u64| {
        let names = (1..=64)
            .filter(|n| set >> (n - 1) & 1 == 1)
            .map(|n| names::signal(n).trim_start_matches("SIG").to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    if set.count_ones() > 32 { format!("~[{}]", list(!set)) } else { format!("[{}]", list(set)) }
}

/// A set of descriptors.
pub fn descriptors(bytes: &[u8]) -> String {
    let is_in = |fd: &usize| bytes[fd / 8] >> (fd % 8) & 1 == 1;
    let all: Vec<String> = (0..bytes.len() * 8).filter(is_in).map(|fd| fd.to_string()).collect();
    format!("[{}]", all.join(" "))
}

/// The head of a message.
pub fn message(bytes: &[u8]) -> String {
    let word = |at| u64_at(bytes, at);
    format!(
        "{{msg_name={:#x}, msg_namelen={}, msg_iov={:#x}, msg_iovlen={}, msg_control={:#x}, \
         msg_controllen={}, msg_flags={}}}",
        word(0),
        u32_at(bytes, 8),
        word(16),
        word(24),
        word(32),
        word(40),
        names::flags(u64::from(u32_at(bytes, 48)), Names::Message)
    )
}

/// A socket address.
pub fn address(bytes: &[u8]) -> String {
    let family = u64::from(u32_at(&[bytes, &[0; 4]].concat(), 0) & 0xffff);
    let port = || u16::from_be_bytes([bytes[2], bytes[3]]);
    match family {
        1 if bytes.len() > 2 => {
            let path = &bytes[2..];
            let (sign, path) = if path[0] == 0 {
                ("@", &path[1..])
            } else {
                ("", path.split(|&byte| byte == 0).next().unwrap_or_default())
            };
            format!("{{sa_family=AF_UNIX, sun_path={sign}{}}}", quoted(path, 108))
        }
        2 if bytes.len() >= 8 => {
            format!(
                "{{sa_family=AF_INET, sin_port={}, sin_addr={}.{}.{}.{}}}",
                port(),
                bytes[4],
                bytes[5],
                bytes[6],
                bytes[7]
            )
        }
        10 if bytes.len() >= 24 => {
            let octets: [u8; 16] = bytes[8..24].try_into().unwrap_or([0; 16]);
            format!(
                "{{sa_family=AF_INET6, sin6_port={}, sin6_addr={}}}",
                port(),
                std::net::Ipv6Addr::from(octets)
            )
        }
        other => format!("{{sa_family={}, ...}}", names::one(other, Names::Family)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_shown_short() {
        let mut stat = vec![0; 144];
        stat[24..28].copy_from_slice(&0o100644u32.to_le_bytes());
        stat[48] = 7;
        assert_eq!(text(Structure::Stat, &stat), "{st_mode=S_IFREG|0644, st_size=7, ...}");
        assert_eq!(text(Structure::SignalSet, &(1u64 << 16 | 2).to_le_bytes()), "[INT CHLD]");
        assert_eq!(text(Structure::SignalSet, &(!1u64).to_le_bytes()), "~[HUP]");
        assert_eq!(
            address(&[2, 0, 0, 80, 127, 0, 0, 1]),
            "{sa_family=AF_INET, sin_port=80, sin_addr=127.0.0.1}"
        );
        let mut names = vec![0; 390];
        names[..5].copy_from_slice(b"Linux");
        names[65..69].copy_from_slice(b"\x1b[2J");
        assert_eq!(
            text(Structure::Utsname, &names),
            "{sysname=\"Linux\", nodename=\"\\33[2J\", ...}"
        );
        assert_eq!(
            text(Structure::Poll, &[3, 0, 0, 0, 5, 0, 1, 0]),
            "{fd=3, events=0x5, revents=0x1}"
        );
        assert_eq!(descriptors(&[0b1001, 0, 1, 0]), "[0 3 16]");
        let mut head = vec![0; 56];
        head[24] = 2;
        head[48] = 0x20;
        assert_eq!(
            message(&head),
            "{msg_name=0x0, msg_namelen=0, msg_iov=0x0, msg_iovlen=2, msg_control=0x0, \
             msg_controllen=0, msg_flags=MSG_TRUNC}"
        );
        assert_eq!(address(b"\x01\0/run/x\0"), "{sa_family=AF_UNIX, sun_path=\"/run/x\"}");
    }
}
