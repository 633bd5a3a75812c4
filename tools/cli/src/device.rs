//! Permissions of `/dev/hanare`: root and the members of its group may use it.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use hanare_sdk::DEVICE_PATH;

use hanare_common::machine;

/// The group whose members may run programs, unless an administrator named another one.
const GROUP: &str = "hanare";
const ROOT: u32 = 0;

/// Gives the device to its group where no udev does, by whose rules it otherwise happens. A group
/// that it has stays.
pub fn give_to_group() {
    let may = machine::is_root() && !Path::new("/run/udev/control").exists();
    if !may || std::fs::metadata(DEVICE_PATH).map_or(true, |device| device.gid() != ROOT) {
        return;
    }
    if let Some(id) = machine::read("/etc/group").and_then(|groups| id_of(&groups, GROUP)) {
        // As it is, it serves root.
        let _ = chown(DEVICE_PATH, None, Some(id));
    }
}

/// The name of the device's group, or its number.
pub fn group() -> String {
    let Ok(device) = std::fs::metadata(DEVICE_PATH) else { return GROUP.into() };
    let groups = machine::read("/etc/group").unwrap_or_default();
    match name_of(&groups, device.gid()) {
        Some(name) => name.into(),
        None => device.gid().to_string(),
    }
}

/// Name and id of each line of /etc/group.
fn entries(groups: &str) -> impl Iterator<Item = (&str, u32)> {
    groups.lines().filter_map(|line| {
        let mut fields = line.split(':');
        Some((fields.next()?, fields.nth(1)?.parse().ok()?))
    })
}

fn id_of(groups: &str, name: &str) -> Option<u32> {
    entries(groups).find(|entry| entry.0 == name).map(|entry| entry.1)
}

fn name_of(groups: &str, id: u32) -> Option<&str> {
    entries(groups).find(|entry| entry.1 == id).map(|entry| entry.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_name_and_by_number() {
        let groups = "root:x:0:\nnonsense\nhanare-x:x:7:\nhanare:x:993:ann,bob\n";
        assert_eq!((id_of(groups, "hanare"), id_of(groups, "lwk")), (Some(993), None));
        assert_eq!((name_of(groups, 993), name_of(groups, 5)), (Some("hanare"), None));
    }
}
