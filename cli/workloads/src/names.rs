//! Names, hashes and UIDs that are the same each time.
//!
//! Knows: how names that controllers draw look. Must not know: what is named.

use std::collections::BTreeSet;

use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// The letters of drawn names, without vowels and what looks alike.
///
/// Source: `k8s.io/apimachinery/pkg/util/rand`.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many letters are drawn for a name.
const DRAWN: usize = 5;

/// How long a name may be before letters are drawn for it: 63 characters with them.
///
/// Source: `k8s.io/apiserver/pkg/storage/names`.
const MAX_BASE: usize = 58;

/// Gives an object a namespace and a UID where it has none.
pub(crate) fn identify(kind: &str, metadata: &mut ObjectMeta) {
    let namespace = metadata.namespace.get_or_insert_default();
    if namespace.is_empty() {
        *namespace = "default".to_owned();
    }
    if metadata.uid.as_deref().is_none_or(str::is_empty) {
        metadata.uid = Some(uid(&format!("{kind}/{namespace}/{}", metadata.name.as_deref().unwrap_or_default())));
    }
}

/// A UID that only depends on `text`.
fn uid(text: &str) -> String {
    let (high, low) = (fnv(text, 0), fnv(text, 1));
    let (first, second, third) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
    format!("{first:08x}-{second:04x}-4{third:03x}-8{:03x}-{:012x}", low >> 52, low & 0xffff_ffff_ffff)
}

/// The name of the pod with this number among those of an owner that begin with `base`.
pub(crate) fn drawn(namespace: &str, base: &str, number: usize, taken: &mut BTreeSet<String>) -> String {
    let base = cut(base, MAX_BASE);
    let mut salt = 0;
    loop {
        let name = format!("{base}{}", letters(fnv(&format!("{namespace}/{base}/{number}"), salt), DRAWN));
        if taken.insert(format!("{namespace}/{name}")) {
            return name;
        }
        salt += 1;
    }
}

/// The beginning of a name that an index is part of, which is not cut.
pub(crate) fn with_index(base: &str, index: i32) -> String {
    let index = format!("-{index}-");
    format!("{}{index}", cut(base, MAX_BASE.saturating_sub(index.len())))
}

fn cut(text: &str, length: usize) -> &str {
    text.get(..length).unwrap_or(text)
}

/// Stands for the hash of a template.
pub(crate) fn hash(template: &PodTemplateSpec) -> String {
    // Nothing in a template fails to be written as JSON.
    letters(fnv(&serde_json::to_string(template).unwrap_or_default(), 0), 10)
}

/// Stands for the minute in which a CronJob runs, of which Jobs bear the number.
pub(crate) fn minute(text: &str) -> u64 {
    fnv(text, 0) % 100_000_000
}

fn letters(mut hash: u64, count: usize) -> String {
    let mut letters = String::with_capacity(count);
    for _ in 0..count {
        letters.push(char::from(LETTERS[(hash % 27) as usize]));
        hash /= 27;
    }
    letters
}

/// FNV-1a with a number that tells several hashes of a text apart.
fn fnv(text: &str, salt: u64) -> u64 {
    let bytes = text.bytes().chain(salt.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
