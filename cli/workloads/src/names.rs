//! Deterministic names, hashes and UIDs.

use std::collections::BTreeSet;

use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// Source: `k8s.io/apimachinery/pkg/util/rand`, without vowels and ambiguous characters.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const DRAWN: usize = 5;

/// The base of a generated name is cut, so that the name has at most 63 characters.
///
/// Source: `k8s.io/apiserver/pkg/storage/names`.
const MAX_BASE: usize = 58;

/// Sets a missing namespace and UID.
pub(crate) fn identify(kind: &str, metadata: &mut ObjectMeta) {
    let namespace = metadata.namespace.get_or_insert_default();
    if namespace.is_empty() {
        *namespace = "default".to_owned();
    }
    if metadata.uid.as_deref().is_none_or(str::is_empty) {
        metadata.uid = Some(uid(&format!("{kind}/{namespace}/{}", metadata.name.as_deref().unwrap_or_default())));
    }
}

/// A UID that depends only on `text`.
fn uid(text: &str) -> String {
    let (high, low) = (fnv(text, 0), fnv(text, 1));
    let (first, second, third) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
    format!("{first:08x}-{second:04x}-4{third:03x}-8{:03x}-{:012x}", low >> 52, low & 0xffff_ffff_ffff)
}

/// The generated name of the owner's pod with this number.
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

/// The base of a name with an index; the index is not cut.
pub(crate) fn with_index(base: &str, index: i32) -> String {
    let index = format!("-{index}-");
    format!("{}{index}", cut(base, MAX_BASE.saturating_sub(index.len())))
}

fn cut(text: &str, length: usize) -> &str {
    text.get(..length).unwrap_or(text)
}

/// Replaces the hash of a template.
pub(crate) fn hash(template: &PodTemplateSpec) -> String {
    // Every template can be serialized.
    letters(fnv(&serde_json::to_string(template).unwrap_or_default(), 0), 10)
}

/// Replaces the scheduled minute of a CronJob, which is part of the Job's name.
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

/// FNV-1a; `salt` gives independent hashes of the same text.
fn fnv(text: &str, salt: u64) -> u64 {
    let bytes = text.bytes().chain(salt.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
