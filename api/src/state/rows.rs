//! How the values of the state are spelled in snapshots, where they have a spelling of their own.

use std::{fmt::Display, str::FromStr};

use countersign_verifier::{base64, leaf::Class};
use serde::{Deserialize, Deserializer, Serializer, de::Error};

use super::{identity::Named, opened::spki};

/// Whatever is written and read as text.
pub mod text {
    use super::*;

    pub fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub fn deserialize<'d, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'d>,
    {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The class of a key, by its name.
pub mod class {
    use super::*;

    pub fn serialize<S: Serializer>(class: &Class, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(class.name())
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Class, D::Error> {
        let name = String::deserialize(from)?;
        Class::from_name(&name).ok_or_else(|| D::Error::custom("no class of a key"))
    }
}

/// A key, as the base64 of its SPKI.
pub mod key {
    use super::*;

    pub fn serialize<S: Serializer>(key: &Named, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&base64::encode(&key.public.spki_der()))
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Named, D::Error> {
        let text = String::deserialize(from)?;
        Ok(spki(&text).map_err(D::Error::custom)?.into())
    }
}
