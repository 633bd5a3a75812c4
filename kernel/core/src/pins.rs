//! Which calls may have Linux pin memory of the program for a device, for as long as that likes
//! (`FOLL_LONGTERM`).

#![allow(non_upper_case_globals)] // of linux-raw-sys

use crate::errno::{EFAULT, ENOMEM, Errno};
use linux_raw_sys::general::{
    __NR_io_uring_register, __NR_io_uring_setup, __NR_ioctl, __NR_setsockopt,
};

/// Option of AF_XDP sockets (`linux/if_xdp.h`).
const SOL_XDP: u64 = 283;
const XDP_UMEM_REG: u64 = 4;
/// Operations of `io_uring_register` (`linux/io_uring.h`).
const REGISTER_BUFFERS: u64 = 0;
const REGISTER_BUFFERS2: u64 = 15;
const REGISTER_BUFFERS_UPDATE: u64 = 16;
const REGISTER_PBUF_RING: u64 = 22;
/// Size of the structure of `io_uring_setup`, bytes.
const IO_URING_PARAMS: u64 = 120;
/// Flag of its operations: the descriptor is a registered one.
const USE_REGISTERED_RING: u32 = 1 << 31;
/// Operations of `ioctl` that pin: of VFIO and its successor (`linux/vfio.h`, `linux/iommufd.h`),
/// and each call of RDMA (`rdma/rdma_user_ioctl_cmds.h`), of which registrations are some.
const VFIO_IOMMU_MAP_DMA: u64 = 0x3b71;
const IOMMU_IOAS_MAP: u64 = 0x3b85;
const RDMA_VERBS: u64 = 0xc018_1b01;

/// Call that may pin memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pins {
    /// Address of the structure that says which memory.
    pub block: u64,
    /// How large that is, bytes, as far as the call says.
    pub bytes: u64,
    /// Linux writes to the structure.
    pub is_answered: bool,
    /// The descriptor, if that has to be a device's: other ioctls pin nothing.
    pub device: Option<u32>,
    /// The call is known to pin.
    pub is_known: bool,
    /// Error of the call where Linux refuses to pin some of the memory, beside `EFAULT`.
    pub in_part: Errno,
}

impl Pins {
    /// Whether Linux may have refused to pin, where the call is this error.
    #[must_use]
    pub fn may_be(&self, error: Errno) -> bool {
        error == EFAULT || error == self.in_part
    }
}

/// Whether a call with these arguments may.
#[must_use]
pub const fn of_call(number: u32, args: &[u64; 6]) -> Option<Pins> {
    let known = Pins {
        block: args[2],
        bytes: 0,
        is_answered: false,
        device: None,
        is_known: true,
        in_part: EFAULT,
    };
    match number {
        __NR_ioctl => {
            let operation = args[1] as u32 as u64;
            Some(Pins {
                bytes: operation >> 16 & 0x3fff,
                is_answered: operation >> 31 != 0,
                device: Some(args[0] as u32),
                is_known: matches!(operation, VFIO_IOMMU_MAP_DMA | IOMMU_IOAS_MAP | RDMA_VERBS),
                ..known
            })
        }
        __NR_setsockopt
            if args[1] as u32 as u64 == SOL_XDP && args[2] as u32 as u64 == XDP_UMEM_REG =>
        {
            Some(Pins { block: args[3], in_part: ENOMEM, ..known })
        }
        __NR_io_uring_register => match (args[1] as u32 & !USE_REGISTERED_RING) as u64 {
            REGISTER_BUFFERS | REGISTER_BUFFERS2 | REGISTER_BUFFERS_UPDATE => Some(known),
            // Most rings are Linux' own memory.
            REGISTER_PBUF_RING => Some(Pins { is_known: false, ..known }),
            _ => None,
        },
        __NR_io_uring_setup => Some(Pins {
            block: args[1],
            bytes: IO_URING_PARAMS,
            is_answered: true,
            is_known: false,
            ..known
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_raw_sys::general::__NR_read;

    #[test]
    fn calls_that_pin_name_their_structure() {
        let args = |second, third| [3 | 7 << 32, second, third, 0x4000, 32, 0];
        let of = |number, second, third| of_call(number, &args(second, third));
        let block = |number, second, third| of(number, second, third).map(|pins| pins.block);
        assert_eq!(block(__NR_ioctl, 0x3b71, 0x3000), Some(0x3000));
        assert_eq!(block(__NR_setsockopt, SOL_XDP, XDP_UMEM_REG), Some(0x4000));
        assert_eq!(block(__NR_setsockopt, SOL_XDP | 1 << 32, XDP_UMEM_REG), Some(0x4000));
        assert_eq!(block(__NR_setsockopt, 1, XDP_UMEM_REG), None);
        assert_eq!(block(__NR_setsockopt, SOL_XDP, 5), None);
        for operation in [0, 15, 16, 22, 1 << 31 | 16] {
            assert_eq!(block(__NR_io_uring_register, operation, 0x3000), Some(0x3000));
        }
        assert_eq!(block(__NR_io_uring_setup, 0x3000, 0), Some(0x3000));
        assert_eq!(block(__NR_io_uring_register, 2, 0x3000), None);
        assert_eq!(block(__NR_read, 0, 0x3000), None);
    }

    #[test]
    fn ioctls_say_what_they_are() {
        let of =
            |operation| of_call(__NR_ioctl, &[3 | 7 << 32, operation, 0x3000, 0, 0, 0]).unwrap();
        let said = |operation| {
            let pins = of(operation);
            (pins.bytes, pins.is_answered, pins.is_known)
        };
        assert_eq!(of(0x3b71).device, Some(3));
        assert_eq!(said(VFIO_IOMMU_MAP_DMA), (0, false, true));
        assert_eq!(said(RDMA_VERBS | 1 << 32), (24, true, true));
        assert_eq!(said(0x4004_6401), (4, false, false)); // _IOW
        assert_eq!(said(0x8010_6401), (16, true, false)); // _IOR
    }

    #[test]
    fn a_part_that_linux_refuses_is_seen() {
        let ring = of_call(__NR_io_uring_register, &[3, 0, 0x3000, 1, 0, 0]).unwrap();
        let socket = of_call(__NR_setsockopt, &[3, SOL_XDP, XDP_UMEM_REG, 0x3000, 32, 0]).unwrap();
        assert!(ring.may_be(EFAULT) && !ring.may_be(ENOMEM));
        assert!(socket.may_be(EFAULT) && socket.may_be(ENOMEM));
    }
}
