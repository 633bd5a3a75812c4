//! Which instance a command is about.

use anyhow::{Result, bail};
use hanare_sdk::Device;

/// The name given, or that of the only instance, or `default`.
pub fn resolve(device: &Device, name: Option<&str>) -> Result<String> {
    if let Some(name) = name {
        return Ok(name.into());
    }
    let names: Vec<String> = device
        .instances()?
        .into_iter()
        .map(|instance| instance.name)
        .collect();
    choose(&names)
}

fn choose(names: &[String]) -> Result<String> {
    match names {
        [] => bail!("no instance is booted (next: hanare boot --cpus LIST --mem SIZE)"),
        [name] => Ok(name.clone()),
        several => match several.iter().find(|&name| name == "default") {
            Some(name) => Ok(name.clone()),
            None => bail!(
                "several instances are booted: name one of {}",
                several.join(", ")
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn chosen() {
        let names =
            |names: &[&str]| choose(&names.iter().map(|&name| name.into()).collect::<Vec<_>>());
        assert!(names(&[]).unwrap_err().to_string().contains("hanare boot"));
        assert_eq!(names(&["blue"]).unwrap(), "blue");
        assert_eq!(names(&["blue", "default"]).unwrap(), "default");
        assert!(names(&["a", "b"]).unwrap_err().to_string().contains("a, b"));
    }
}
