//! Internet addresses as the kernel wants them.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use linux_raw_sys::net::{AF_INET, AF_INET6};

/// A `struct sockaddr_in` or `struct sockaddr_in6`.
pub struct Encoded {
    bytes: [u8; Self::MAX],
    length: usize,
}

impl Encoded {
    /// Bytes of the longer structure.
    pub const MAX: usize = 28;

    /// The structure's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The family of sockets that have such addresses.
pub fn family(address: &SocketAddr) -> u32 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

/// Makes the structure of an address.
pub fn encode(address: &SocketAddr) -> Encoded {
    let mut bytes = [0; Encoded::MAX];
    bytes[..2].copy_from_slice(&(family(address) as u16).to_ne_bytes()); // 2 or 10
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    let length = match address {
        SocketAddr::V4(address) => {
            bytes[4..8].copy_from_slice(&address.ip().octets());
            16
        }
        SocketAddr::V6(address) => {
            bytes[4..8].copy_from_slice(&address.flowinfo().to_be_bytes());
            bytes[8..24].copy_from_slice(&address.ip().octets());
            bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
            28
        }
    };
    Encoded { bytes, length }
}

/// The address of a structure; `None` if it is of another family or too short.
pub fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let word = *bytes.get(4..)?.first_chunk::<4>()?;
    match family.into() {
        AF_INET => Some(SocketAddrV4::new(Ipv4Addr::from(word), port).into()),
        AF_INET6 => {
            let ip = Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?);
            let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(ip, port, u32::from_be_bytes(word), scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_raw_sys::net::{sockaddr_in, sockaddr_in6};

    #[test]
    fn what_is_encoded_is_decoded_as_the_same() {
        for text in ["127.0.0.1:80", "255.1.2.3:65535", "[::1]:443", "[fe80::1%7]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            let encoded = encode(&address);
            assert_eq!(decode(encoded.bytes()), Some(address));
            for length in 0..encoded.bytes().len().min(8) {
                assert_eq!(
                    decode(&encoded.bytes()[..length]),
                    None,
                    "{text} cut to {length} bytes"
                );
            }
        }
    }

    #[test]
    fn lengths_are_those_of_the_structures() {
        let length = |text: &str| encode(&text.parse().unwrap()).bytes().len();
        assert_eq!(length("1.2.3.4:5"), size_of::<sockaddr_in>());
        assert_eq!(length("[::]:5"), size_of::<sockaddr_in6>());
    }

    #[test]
    fn another_family_is_no_address() {
        assert_eq!(decode(&[1; 28]), None);
    }
}
