//! Which instance a command is about.

use anyhow::{Result, bail};
use hanare_sdk::{Device, Instance};

use crate::output;

/// The advice where there is no instance.
const BOOT: &str = "next: hanare boot --cpus LIST --mem SIZE";

/// A name on the command line.
pub fn name(text: &str) -> Result<String, String> {
    hanare_sdk::check_name(text).map_err(|error| error.to_string())?;
    Ok(text.into())
}

/// The name given if there is such an instance, or that of the only one, or `default`.
pub fn resolve(device: &Device, name: Option<&str>) -> Result<String> {
    choose(&names(&device.instances()?), name)
}

/// The instance of the name given, or all of them; an error if there is none.
pub fn select(device: &Device, name: Option<&str>) -> Result<Vec<Instance>> {
    let mut all = device.instances()?;
    match name {
        Some(_) => {
            let name = choose(&names(&all), name)?;
            all.retain(|instance| instance.name == name);
        }
        None if all.is_empty() => bail!("no instance is booted ({BOOT})"),
        None => {}
    }
    Ok(all)
}

fn names(instances: &[Instance]) -> Vec<String> {
    instances.iter().map(|instance| instance.name.clone()).collect()
}

fn choose(names: &[String], wanted: Option<&str>) -> Result<String> {
    let listed = || match names {
        [name] => format!("the only one is '{name}'"),
        several => format!("there are {}", output::cut(&several.join(", "), 120)),
    };
    match (wanted, names) {
        (Some(wanted), names) if names.iter().any(|name| name == wanted) => Ok(wanted.into()),
        (Some(wanted), []) => bail!("no instance is called '{wanted}': none is booted ({BOOT})"),
        (Some(wanted), _) => {
            bail!("no instance is called '{wanted}': {} (see: hanare ls)", listed())
        }
        (None, []) => bail!("no instance is booted ({BOOT})"),
        (None, [name]) => Ok(name.clone()),
        (None, several) if several.iter().any(|name| name == "default") => Ok("default".into()),
        (None, _) => bail!(
            "several instances are booted and none is called 'default': name one, {}",
            listed()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::choose;

    fn names(names: &[&str], wanted: Option<&str>) -> Result<String, String> {
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        choose(&names, wanted).map_err(|error| error.to_string())
    }

    #[test]
    fn the_only_one_or_default_is_chosen() {
        assert_eq!(names(&["blue"], None).unwrap(), "blue");
        assert_eq!(names(&["blue", "default"], None).unwrap(), "default");
        assert_eq!(names(&["blue", "default"], Some("blue")).unwrap(), "blue");
    }

    #[test]
    fn none_and_several_and_unknown_are_told_apart() {
        assert!(names(&[], None).unwrap_err().contains("no instance is booted (next: hanare boot"));
        assert!(names(&["a", "b"], None).unwrap_err().contains("several instances are booted"));
        assert!(names(&["a", "b"], None).unwrap_err().contains("a, b"));
        for there in [&[][..], &["a"], &["a", "b"]] {
            let error = names(there, Some("blue")).unwrap_err();
            assert!(error.starts_with("no instance is called 'blue'"), "{error}");
            assert!(there.iter().all(|name| error.contains(name)), "{error}");
        }
    }
}
