//! An instance under construction.

use std::os::fd::{AsRawFd, BorrowedFd};

use hanare_abi::ioctl::{self, MESSAGE_SIZE};

use crate::{Device, Error, Result, name, raw, text};

/// Bytes of the boot options, without the zero.
const OPTIONS_MAX: usize = 255;

/// An instance under construction: dropped before [`Builder::boot`] succeeded, it
/// gives everything back to Linux (as does the death of this process).
#[derive(Debug)]
pub struct Builder {
    device: Device,
}

/// How long each phase of the boot took, in ns.
#[derive(Clone, Copy, Debug)]
pub struct BootTimes {
    /// Loading the image.
    pub load_ns: u64,
    /// The first CPU, until it serves.
    pub first_cpu_ns: u64,
    /// All others.
    pub other_cpus_ns: u64,
}

impl Device {
    /// Begins an instance. It is given up again when the builder is dropped before
    /// it was booted.
    pub fn create(self, name: &str) -> Result<Builder> {
        let mut create = ioctl::Create { name: name::field(name)?, message: [0; MESSAGE_SIZE] };
        raw::create(self.fd(), &mut create)
            .map_err(|errno| Error::refused("create the instance", errno, &create.message))?;
        Ok(Builder { device: self })
    }
}

/// Words of `struct nvme_passthru_cmd` (`linux/nvme_ioctl.h`).
const NVME_COMMAND_WORDS: usize = 9;

/// Address of a PCI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// PCI domain.
    pub domain: u32,
    /// Bus of the domain.
    pub bus: u32,
    /// Number on the bus: device << 3 | function.
    pub number: u32,
}

impl PciFunction {
    /// The function with this name, as Linux writes it: `0000:00:05.0`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let (domain, rest) = name.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let number =
            |text: &str, most| u32::from_str_radix(text, 16).ok().filter(|&number| number <= most);
        let number_there = number(device, 31)? << 3 | number(function, 7)?;
        Some(Self {
            domain: number(domain, u32::MAX)?,
            bus: number(bus, 255)?,
            number: number_there,
        })
    }
}

impl Builder {
    /// Reserves `bytes` (a multiple of 2 MiB) on `node` (`None`: near its CPUs).
    pub fn add_memory(&mut self, bytes: u64, node: Option<u32>) -> Result<()> {
        let node = node.map_or(-1, |node| i32::try_from(node).unwrap_or(i32::MAX));
        let mut add = ioctl::AddMemory { bytes, node, reserved: 0, message: [0; MESSAGE_SIZE] };
        raw::add_memory(self.device.fd(), &mut add)
            .map_err(|errno| Error::refused("reserve memory", errno, &add.message))
    }

    /// Says whether Linux' CPU `cpu` could be taken; changes nothing.
    pub fn check_cpu(&self, cpu: u32) -> Result<()> {
        self.cpu(cpu, true)
    }

    /// Takes Linux' CPU `cpu`.
    pub fn add_cpu(&mut self, cpu: u32) -> Result<()> {
        self.cpu(cpu, false)
    }

    /// Gives a driver of the LWK its part of a device of Linux', the PCI function at this address,
    /// which programs open as `file`. `queues_of_linux`, of an NVMe controller: how many pairs of
    /// queues Linux' driver makes on it at most.
    pub fn add_device(
        &mut self,
        driver: &str,
        file: BorrowedFd<'_>,
        function: PciFunction,
        queues_of_linux: Option<u32>,
    ) -> Result<()> {
        let mut command = [0_u64; NVME_COMMAND_WORDS];
        let mut add = ioctl::AddDevice {
            driver: text::field(driver.as_bytes()),
            descriptor: file.as_raw_fd().cast_unsigned(),
            domain: function.domain,
            bus: function.bus,
            function: function.number,
            queues_of_linux: queues_of_linux.unwrap_or(0),
            reserved: 0,
            command: command.as_mut_ptr() as u64,
            message: [0; MESSAGE_SIZE],
        };
        raw::add_device(self.device.fd(), &mut add)
            .map_err(|errno| Error::refused("give the device", errno, &add.message))
    }

    fn cpu(&self, cpu: u32, check: bool) -> Result<()> {
        let mut add = ioctl::AddCpu { cpu, check: check.into(), message: [0; MESSAGE_SIZE] };
        raw::add_cpu(self.device.fd(), &mut add)
            .map_err(|errno| Error::refused("take the CPU", errno, &add.message))
    }

    /// Loads `image` and starts every CPU; each may take `timeout_ms` (0: the
    /// module's default). Afterwards the instance lives on by itself.
    pub fn boot(self, image: &[u8], options: &str, timeout_ms: u32) -> Result<BootTimes> {
        if options.len() > OPTIONS_MAX {
            return Err(Error::Options(options.len()));
        }
        let mut boot = ioctl::Boot {
            image: 0,
            image_size: 0,
            timeout_ms,
            reserved: 0,
            load_ns: 0,
            first_cpu_ns: 0,
            other_cpus_ns: 0,
            cmdline: text::field(options.as_bytes()),
            message: [0; MESSAGE_SIZE],
        };
        raw::boot(self.device.fd(), &mut boot, image)
            .map_err(|errno| Error::refused("boot the LWK", errno, &boot.message))?;
        let ioctl::Boot { load_ns, first_cpu_ns, other_cpus_ns, .. } = boot;
        Ok(BootTimes { load_ns, first_cpu_ns, other_cpus_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_names() {
        let of = PciFunction::of_name;
        let function = |domain, bus, number| Some(PciFunction { domain, bus, number });
        assert_eq!(of("0000:00:05.0"), function(0, 0, 0x28));
        assert_eq!(of("10000:e1:1f.7"), function(0x10000, 0xe1, 0xff));
        for wrong in [
            "",
            "0000:00:05",
            "00:05.0",
            "0000:100:05.0",
            "0000:00:20.0",
            "0000:00:05.8",
            "x:00:05.0",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
