//! Core: the objects of one kind, by key and by secondary indices. The maps are persistent: a copy
//! shares its structure with the original, and a change copies only the path to one entry.

use std::fmt::{Debug, Display};
use std::ops::{Deref, RangeInclusive};
use std::str::FromStr;
use std::sync::Arc;

use imbl::OrdMap;
use model::boot_template::BootTemplateKey;
use model::disk_key::DiskKeyId;
use model::image::ImageId;
use model::network::{ClaimKey, TemplateKey};
use model::rack::LeaseKey;
use model::switch::PortKey;
use model::{InstanceName, NodeName, Serial, Uuid, Word};
use serde::Serialize;

/// A kind of object. The rows of [`super::table`] implement this.
pub trait Object: Clone + Debug + Serialize {
    /// The key of an object.
    type Key: Clone + Ord + Debug + Display + FromStr + Named;
    /// The secondary indices.
    type By: Indices<Self>;
    /// The directory of the documents, a prefix of their keys in the store.
    const BELOW: &'static str;

    /// The key of this object.
    fn key(&self) -> Self::Key;

    /// The racks whose documents show this object.
    fn racks(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Reads the document of the object with this key.
    ///
    /// # Errors
    /// The content is malformed.
    fn read(key: &Self::Key, content: &[u8]) -> serde_json::Result<Self>;
}

/// A key as the name of a document.
pub trait Named: Sized {
    /// The name, a path below the directory of the kind.
    fn name(&self) -> String;

    /// The key that has this name.
    fn of_name(name: &str) -> Option<Self>;
}

/// Keys whose text is a path.
macro_rules! named_by_their_text {
    ($($key:ty),+) => {$(
        impl Named for $key {
            fn name(&self) -> String {
                self.to_string()
            }

            fn of_name(name: &str) -> Option<Self> {
                name.parse().ok()
            }
        }
    )+};
}

named_by_their_text!(
    NodeName,
    InstanceName,
    Uuid,
    String,
    Word,
    ImageId,
    TemplateKey,
    BootTemplateKey,
    LeaseKey,
    PortKey,
    u32
);

impl Named for ClaimKey {
    fn name(&self) -> String {
        self.escaped()
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::from_escaped(name)
    }
}

impl Named for DiskKeyId {
    fn name(&self) -> String {
        self.escaped()
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::from_escaped(name)
    }
}

impl Named for Serial {
    fn name(&self) -> String {
        self.escaped()
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::from_escaped(name)
    }
}

/// The objects of one kind, in the order of their keys.
#[derive(Debug, Clone)]
pub struct Objects<T: Object> {
    all: OrdMap<T::Key, Arc<T>>,
    /// The same objects by secondary indices.
    pub by: T::By,
}

impl<T: Object> Objects<T> {
    /// Replaces the object with this key, or removes it; returns the previous one.
    pub(super) fn set(&mut self, key: &T::Key, object: Option<&Arc<T>>) -> Option<Arc<T>> {
        let before = match object {
            Some(object) => self.all.insert(key.clone(), Arc::clone(object)),
            None => self.all.remove(key),
        };
        self.by.set(before.as_ref(), object);
        before
    }
}

impl<T: Object> Default for Objects<T> {
    fn default() -> Self {
        Self { all: OrdMap::new(), by: T::By::default() }
    }
}

impl<T: Object> Deref for Objects<T> {
    type Target = OrdMap<T::Key, Arc<T>>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

/// The secondary indices of a kind of object.
pub trait Indices<T: Object>: Clone + Debug + Default {
    /// Replaces the entries of one object.
    fn set(&mut self, before: Option<&Arc<T>>, after: Option<&Arc<T>>);
}

impl<T: Object> Indices<T> for () {
    fn set(&mut self, _before: Option<&Arc<T>>, _after: Option<&Arc<T>>) {}
}

/// A secondary index. Several objects may have the same value, and an object may have several values.
#[derive(Debug, Clone)]
pub struct Index<V: Ord + Clone + Debug, T: Object>(OrdMap<IndexKey<V, T>, Arc<T>>);

/// A value and the key of an object that has it. `None` sorts before every key, so that a range can
/// begin there.
type IndexKey<V, T> = (V, Option<<T as Object>::Key>);

impl<V: Ord + Clone + Debug, T: Object> Index<V, T> {
    /// The objects with this value, in the order of their keys.
    pub fn of(&self, value: V) -> impl Iterator<Item = &Arc<T>> {
        self.within(value.clone()..=value).map(|(_value, object)| object)
    }

    /// The values within this range, in order, each with an object that has it.
    pub fn within(&self, values: RangeInclusive<V>) -> impl Iterator<Item = (&V, &Arc<T>)> {
        let (first, last) = values.into_inner();
        let from = self.0.range((first, None)..);
        let from = from.map(|((value, _key), object)| (value, object));
        from.take_while(move |(value, _object)| **value <= last)
    }

    /// Replaces the entries of one object; `values` lists the values that an object has.
    pub(super) fn set(
        &mut self,
        before: Option<&Arc<T>>,
        after: Option<&Arc<T>>,
        values: impl Fn(&T) -> Vec<V>,
    ) {
        if let Some(object) = before {
            for value in values(object) {
                self.0.remove(&(value, Some(object.key())));
            }
        }
        if let Some(object) = after {
            for value in values(object) {
                self.0.insert((value, Some(object.key())), Arc::clone(object));
            }
        }
    }
}

impl<V: Ord + Clone + Debug, T: Object> Default for Index<V, T> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}
