//! Which calls may have Linux pin memory of the program for a device, for as long as that likes
//! (`FOLL_LONGTERM`).

#![allow(non_upper_case_globals)] // of linux-raw-sys

use linux_raw_sys::general::{__NR_io_uring_register, __NR_ioctl, __NR_setsockopt};

/// Option of AF_XDP sockets (`linux/if_xdp.h`).
const SOL_XDP: u64 = 283;
const XDP_UMEM_REG: u64 = 4;
/// Operations of `io_uring_register` (`linux/io_uring.h`).
const REGISTER_BUFFERS: u64 = 0;
const REGISTER_BUFFERS2: u64 = 15;
const REGISTER_BUFFERS_UPDATE: u64 = 16;

/// Call that may pin memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pins {
    /// Address of the structure that says which memory.
    pub block: u64,
    /// The descriptor, if that has to be a device's: other ioctls pin nothing.
    pub device: Option<u64>,
}

/// Whether a call with these arguments may.
#[must_use]
pub const fn of_call(number: u32, args: &[u64; 6]) -> Option<Pins> {
    match number {
        __NR_ioctl => Some(Pins { block: args[2], device: Some(args[0]) }),
        __NR_setsockopt
            if args[1] as u32 as u64 == SOL_XDP && args[2] as u32 as u64 == XDP_UMEM_REG =>
        {
            Some(Pins { block: args[3], device: None })
        }
        __NR_io_uring_register
            if matches!(
                args[1] as u32 as u64,
                REGISTER_BUFFERS | REGISTER_BUFFERS2 | REGISTER_BUFFERS_UPDATE
            ) =>
        {
            Some(Pins { block: args[2], device: None })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_raw_sys::general::__NR_read;

    #[test]
    fn calls_that_pin_name_their_structure() {
        let args = |second, third| [3, second, third, 0x4000, 32, 0];
        let of = |number, second, third| of_call(number, &args(second, third));
        let pins = |block, device| Some(Pins { block, device });
        assert_eq!(of(__NR_ioctl, 0x3b71, 0x3000), pins(0x3000, Some(3)));
        assert_eq!(of(__NR_setsockopt, SOL_XDP, XDP_UMEM_REG), pins(0x4000, None));
        assert_eq!(of(__NR_setsockopt, SOL_XDP | 1 << 32, XDP_UMEM_REG), pins(0x4000, None));
        assert_eq!(of(__NR_setsockopt, 1, XDP_UMEM_REG), None);
        assert_eq!(of(__NR_setsockopt, SOL_XDP, 5), None);
        for operation in [REGISTER_BUFFERS, REGISTER_BUFFERS2, REGISTER_BUFFERS_UPDATE] {
            assert_eq!(of(__NR_io_uring_register, operation, 0x3000), pins(0x3000, None));
        }
        assert_eq!(of(__NR_io_uring_register, 2, 0x3000), None);
        assert_eq!(of(__NR_read, 0, 0x3000), None);
    }
}
