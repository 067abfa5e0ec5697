//! Host functions: the imports of kube-scheduler-wasm-extension v0.1, and the parts of WASI that language runtimes need.
//!
//! A read has a buffer with a limit and returns the length; data that does not fit is not written. Results do not depend on the time, place
//! or number of calls.
//!
//! Source: `scheduler/plugin/host.go` and `mem.go` of kubernetes-sigs/kube-scheduler-wasm-extension.

use std::{borrow::Cow, ops::Range};

use tracing::{error, info, warn};
use wasmtime::{Caller, Extern, Linker, Memory, Result, Trap};

use crate::{
    encode,
    error::{Fault, FaultKind},
    state::State,
};

const API: &str = "k8s.io/api";
const SCHEDULER: &str = "k8s.io/scheduler";
const KLOG: &str = "k8s.io/klog";
const WASI: &str = "wasi_snapshot_preview1";

/// Maximum bytes that a guest passes in one call. Copying 1 MiB takes about 0.1 ms.
const MOST_BYTES: usize = 1 << 20;
/// Maximum bytes per node in a normalized list: a name of 13, a score of up to 20, quotes and white space.
const SCORE_BYTES: usize = 64;
/// Maximum number of node names from `prefilter`. Kubernetes supports 5,000 nodes; a class keeps about 60 bytes per name, 4 MB.
const MOST_NAMES: usize = 1 << 16;
/// Maximum bytes of a log text and of its pairs; the rest is cut off.
const MOST_LOGGED: usize = 16 << 10;
/// Fuel for a log line in addition to its bytes: writing one takes about 10 us. By default a call logs at most 20,000,000 / 1,000 = 20,000
/// lines.
const LINE: u64 = 1_000;

/// `errno` of WASI: not a file, no such function, a bad address.
const EBADF: i32 = 8;
const ENOSYS: i32 = 52;
const EFAULT: i32 = 21;

/// The constant time of the clock, in nanoseconds since 1970.
const NOW_NS: u64 = 1_577_836_800_000_000_000;

/// The severities of klog.
const WARNING: i32 = 1;
const ERROR: i32 = 2;

type Guest<'a> = Caller<'a, State>;

#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("module closed with exit_code({0})")]
pub(crate) struct Exit(pub(crate) i32);

pub(crate) fn link(linker: &mut Linker<State>) -> Result<()> {
    link_api(linker)?;
    link_scheduler(linker)?;
    link_handle(linker)?;
    link_klog(linker)?;
    link_wasi(linker)?;
    link_wasi_files(linker)
}

fn link_api(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(API, "node", |mut guest: Guest<'_>, name: u32, len: u32, buffer: u32, limit: u32| {
        let name = read(&mut guest, "node", name, len)?.ok_or_else(|| answer("out of memory reading nodeName"))?;
        let state = guest.data_mut();
        if name != state.node_name.as_bytes() {
            let (name, known) = (String::from_utf8_lossy(&name).into_owned(), state.node_name.clone());
            let known = if known.is_empty() { "none".to_owned() } else { format!("{known:?}") };
            return Err(missing(format!("node {name:?} is not provided: a call sees one node, and now it is {known}")));
        }
        let node = std::mem::take(&mut state.node);
        let written = write(&mut guest, &node, buffer, limit);
        guest.data_mut().node = node;
        written
    })?;
    linker.func_wrap(API, "nodeList", |_: Guest<'_>, _: u32, _: u32| -> Result<u32> {
        Err(missing("nodeList is not provided: a call sees one node"))
    })?;
    Ok(())
}

fn link_scheduler(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(SCHEDULER, "get_config", |mut guest: Guest<'_>, buffer: u32, limit: u32| {
        let setting = guest.data().setting.clone();
        write(&mut guest, setting.config.as_bytes(), buffer, limit)
    })?;
    linker.func_wrap(SCHEDULER, "currentPod", |mut guest: Guest<'_>, buffer: u32, limit: u32| {
        let pod = guest.data().pod.clone();
        write(&mut guest, &pod, buffer, limit)
    })?;
    linker.func_wrap(SCHEDULER, "currentNodeName", |mut guest: Guest<'_>, buffer: u32, limit: u32| {
        let name = std::mem::take(&mut guest.data_mut().node_name);
        let written = write(&mut guest, name.as_bytes(), buffer, limit);
        guest.data_mut().node_name = name;
        written
    })?;
    linker.func_wrap(SCHEDULER, "nodeScoreList", |mut guest: Guest<'_>, buffer: u32, limit: u32| {
        let Some(scores) = guest.data().scores.clone() else {
            return Err(missing("nodeScoreList is not provided outside normalizescore"));
        };
        // Charged before encoding: the list is encoded to find its length, even if it does not fit.
        charge(&mut guest, bytes_of(&scores))?;
        write(&mut guest, encode::scores(&scores).as_bytes(), buffer, limit)
    })?;
    linker.func_wrap(SCHEDULER, "result.status_reason", |mut guest: Guest<'_>, text: u32, len: u32| {
        let reason = read(&mut guest, "result.status_reason", text, len)?;
        let reason =
            reason.as_deref().map_or_else(|| "BUG: out of memory reading message".into(), String::from_utf8_lossy);
        guest.data_mut().reason = reason.into_owned();
        Ok(())
    })?;
    linker.func_wrap(SCHEDULER, "result.node_names", |mut guest: Guest<'_>, text: u32, len: u32| {
        let bytes = read(&mut guest, "result.node_names", text, len)?;
        let bytes = bytes.ok_or_else(|| answer("out of memory reading nodeNames"))?;
        let count = texts(&bytes).count();
        if count > MOST_NAMES {
            return Err(answer(format!(
                "result.node_names takes at most {MOST_NAMES} names; the guest passes {count}"
            )));
        }
        guest.data_mut().node_names = Some(texts(&bytes).map(Cow::into_owned).collect());
        Ok(())
    })?;
    linker.func_wrap(SCHEDULER, "result.cluster_events", |mut guest: Guest<'_>, events: u32, len: u32| {
        let bytes = read(&mut guest, "result.cluster_events", events, len)?;
        let bytes = bytes.ok_or_else(|| answer("out of memory reading clusterEvents"))?;
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or(0);
        let event = |event: &[u8]| (number(&event[..4]), number(&event[4..]));
        guest.data_mut().events = bytes.chunks_exact(8).map(event).collect();
        Ok(())
    })?;
    linker.func_wrap(SCHEDULER, "result.normalized_score_list", |mut guest: Guest<'_>, json: u32, len: u32| {
        let most = MOST_BYTES.max(guest.data().scores.as_ref().map_or(0, |scores| bytes_of(scores)));
        let json = read_at_most(&mut guest, "result.normalized_score_list", most, json, len)?;
        let json = json.ok_or_else(|| answer("out of memory reading normalized score list"))?;
        guest.data_mut().normalized = Some(json);
        Ok(())
    })?;
    Ok(())
}

fn link_handle(linker: &mut Linker<State>) -> Result<()> {
    for (name, why) in [
        ("targetPod", "addpod and removepod are not run"),
        ("filteredNodeList", "a call sees one node, and prescore none"),
        ("nodeToStatusMap", "postfilter is not run"),
    ] {
        linker.func_wrap(SCHEDULER, name, move |_: Guest<'_>, _: u32, _: u32| -> Result<u32> {
            Err(missing(format!("{name} is not provided: {why}")))
        })?;
    }
    linker.func_wrap(SCHEDULER, "nodeImageStates", |_: Guest<'_>, _: u32, _: u32, _: u32, _: u32| -> Result<u32> {
        Err(missing("nodeImageStates is not provided: how many nodes hold an image is not known to one node"))
    })?;
    linker.func_wrap(SCHEDULER, "result.nominated_node_name", |_: Guest<'_>, _: u32, _: u32| -> Result<()> {
        Err(missing("result.nominated_node_name is not provided: postfilter is not run"))
    })?;
    for name in ["handle.get_waiting_pod", "handle.reject_waiting_pod"] {
        linker.func_wrap(SCHEDULER, name, move |_: Guest<'_>, _: u32, _: u32, _: u32, _: u32| -> Result<()> {
            Err(missing(format!("{name} is not provided: no pod waits in permit")))
        })?;
    }
    // Events are dropped: one would be written for each evaluation.
    linker.func_wrap(SCHEDULER, "handle.eventrecorder.eventf", |_: Guest<'_>, _: u32, _: u32| {})?;
    Ok(())
}

fn link_klog(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(KLOG, "severity", |guest: Guest<'_>| guest.data().setting.severity)?;
    linker.func_wrap(KLOG, "log", |mut guest: Guest<'_>, severity: i32, text: u32, len: u32| {
        log(&mut guest, severity, (text, len), (0, 0))
    })?;
    linker.func_wrap(
        KLOG,
        "logs",
        |mut guest: Guest<'_>, severity: i32, text: u32, len: u32, pairs: u32, pairs_len: u32| {
            log(&mut guest, severity, (text, len), (pairs, pairs_len))
        },
    )?;
    Ok(())
}

fn link_wasi(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(WASI, "proc_exit", |_: Guest<'_>, code: i32| -> Result<()> { Err(Exit(code).into()) })?;
    linker.func_wrap(WASI, "sched_yield", |_: Guest<'_>| 0)?;
    linker.func_wrap(WASI, "clock_time_get", |mut guest: Guest<'_>, _: i32, _: i64, at: u32| {
        errno(put(&mut guest, at, &NOW_NS.to_le_bytes()))
    })?;
    linker.func_wrap(WASI, "clock_res_get", |mut guest: Guest<'_>, _: i32, at: u32| {
        errno(put(&mut guest, at, &1_u64.to_le_bytes()))
    })?;
    linker.func_wrap(WASI, "random_get", |mut guest: Guest<'_>, at: u32, len: u32| {
        if of_memory(&mut guest, at, len).is_none() {
            return Ok(EFAULT);
        }
        bound("random_get", len as usize, MOST_BYTES)?;
        charge(&mut guest, len as usize)?;
        let words = (0..len.div_ceil(8)).map(|_| guest.data_mut().draw()).collect::<Vec<_>>();
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).take(len as usize).collect();
        errno(put(&mut guest, at, &bytes))
    })?;
    linker.func_wrap(WASI, "args_sizes_get", |mut guest: Guest<'_>, count: u32, bytes: u32| {
        let setting = guest.data().setting.clone();
        charge(&mut guest, 8 * setting.args.len())?;
        let total: usize = setting.args.iter().map(|arg| arg.len() + 1).sum();
        if put(&mut guest, count, &len32(setting.args.len()))?.is_none() {
            return Ok(EFAULT);
        }
        errno(put(&mut guest, bytes, &len32(total)))
    })?;
    linker.func_wrap(WASI, "args_get", |mut guest: Guest<'_>, list: u32, mut text: u32| {
        let setting = guest.data().setting.clone();
        for (place, arg) in (0..).zip(&setting.args) {
            let bytes = [arg.as_bytes(), b"\0"].concat();
            let put_place = put(&mut guest, list.wrapping_add(4 * place), &text.to_le_bytes())?;
            if put_place.is_none() || put(&mut guest, text, &bytes)?.is_none() {
                return Ok(EFAULT);
            }
            text = text.wrapping_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        Ok(0)
    })?;
    linker.func_wrap(WASI, "environ_sizes_get", |mut guest: Guest<'_>, count: u32, bytes: u32| {
        if put(&mut guest, count, &[0; 4])?.is_none() {
            return Ok(EFAULT);
        }
        errno(put(&mut guest, bytes, &[0; 4]))
    })?;
    linker.func_wrap(WASI, "environ_get", |_: Guest<'_>, _: u32, _: u32| 0)?;
    // A sleep would never end, because the clock does not advance.
    linker.func_wrap(WASI, "poll_oneoff", |_: Guest<'_>, _: u32, _: u32, _: u32, _: u32| ENOSYS)?;
    Ok(())
}

/// Only standard output and error exist.
fn link_wasi_files(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(WASI, "fd_write", |mut guest: Guest<'_>, fd: i32, list: u32, count: u32, written: u32| {
        if (1..=2).contains(&fd) { print(&mut guest, list, count, written) } else { Ok(EBADF) }
    })?;
    linker.func_wrap(WASI, "fd_read", |_: Guest<'_>, _: i32, _: u32, _: u32, _: u32| EBADF)?;
    linker.func_wrap(WASI, "fd_close", |_: Guest<'_>, _: i32| EBADF)?;
    linker.func_wrap(WASI, "fd_seek", |_: Guest<'_>, _: i32, _: i64, _: i32, _: u32| EBADF)?;
    linker.func_wrap(WASI, "fd_fdstat_get", |mut guest: Guest<'_>, fd: i32, at: u32| {
        // A character device, without rights.
        let stat: [u8; 24] = std::array::from_fn(|place| if place == 0 { 2 } else { 0 });
        if (0..=2).contains(&fd) { errno(put(&mut guest, at, &stat)) } else { Ok(EBADF) }
    })?;
    linker.func_wrap(WASI, "fd_fdstat_set_flags", |_: Guest<'_>, _: i32, _: i32| EBADF)?;
    linker.func_wrap(WASI, "fd_prestat_get", |_: Guest<'_>, _: i32, _: u32| EBADF)?;
    linker.func_wrap(WASI, "fd_prestat_dir_name", |_: Guest<'_>, _: i32, _: u32, _: u32| EBADF)?;
    Ok(())
}

/// `fd_write`: writes at most the limit of one call; the guest calls again for the rest.
fn print(guest: &mut Guest<'_>, list: u32, count: u32, written: u32) -> Result<i32> {
    let mut total = 0;
    for place in 0..count.min(1024) {
        let Some(entry) = read(guest, "fd_write", list.wrapping_add(8 * place), 8)? else { return Ok(EFAULT) };
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or(0);
        let (at, len) = (number(&entry[..4]), number(&entry[4..]));
        let Some((memory, _)) = of_memory(guest, at, len) else { return Ok(EFAULT) };
        let len = (len as usize).min(MOST_BYTES - total);
        charge(guest, len)?;
        let (memory, state) = memory.data_and_store_mut(&mut *guest);
        state.print(&memory[at as usize..][..len]);
        total += len;
        if total == MOST_BYTES {
            break;
        }
    }
    errno(put(guest, written, &len32(total)))
}

fn log(guest: &mut Guest<'_>, severity: i32, (text, len): (u32, u32), (pairs, pairs_len): (u32, u32)) -> Result<()> {
    let setting = guest.data().setting.clone();
    if severity < setting.severity {
        return Ok(());
    }
    let most = u32::try_from(MOST_LOGGED).unwrap_or(u32::MAX);
    let Some(text) = read(guest, "klog", text, len.min(most))? else { return Ok(()) };
    let pairs = read(guest, "klog", pairs, pairs_len.min(most))?.unwrap_or_default();
    spend(guest, LINE)?;
    let mut text = String::from_utf8_lossy(&text).into_owned();
    let mut pairs = texts(&pairs);
    while let Some(key) = pairs.next() {
        let value = pairs.next();
        text.push_str(&format!(" {key}={:?}", value.as_deref().unwrap_or("(MISSING)")));
    }
    match severity {
        WARNING => warn!(plugin = setting.plugin, "{text}"),
        ..WARNING => info!(plugin = setting.plugin, "{text}"),
        ERROR.. => error!(plugin = setting.plugin, "{text}"),
    }
    Ok(())
}

fn texts(bytes: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let texts = (!bytes.is_empty()).then(|| bytes.split(|&byte| byte == 0));
    texts.into_iter().flatten().map(String::from_utf8_lossy)
}

/// The bytes that a guest passes; `None` if outside of its memory. Fails if they exceed the limit of a call or the fuel.
fn read(guest: &mut Guest<'_>, call: &str, at: u32, len: u32) -> Result<Option<Vec<u8>>> {
    read_at_most(guest, call, MOST_BYTES, at, len)
}

fn read_at_most(guest: &mut Guest<'_>, call: &str, most: usize, at: u32, len: u32) -> Result<Option<Vec<u8>>> {
    let Some((memory, range)) = of_memory(guest, at, len) else { return Ok(None) };
    bound(call, len as usize, most)?;
    charge(guest, len as usize)?;
    Ok(memory.data(&*guest).get(range).map(<[u8]>::to_vec))
}

fn of_memory(guest: &mut Guest<'_>, at: u32, len: u32) -> Option<(Memory, Range<usize>)> {
    let Some(Extern::Memory(memory)) = guest.get_export("memory") else { return None };
    let range = at as usize..(at as usize).checked_add(len as usize)?;
    memory.data(&*guest).get(range.clone())?;
    Some((memory, range))
}

fn bound(call: &str, len: usize, most: usize) -> Result<()> {
    if len <= most {
        return Ok(());
    }
    Err(answer(format!("{call} takes at most {most} bytes; the guest passes {len}")))
}

fn bytes_of(scores: &[(i64, usize)]) -> usize {
    scores.iter().map(|(_, nodes)| nodes * SCORE_BYTES).sum()
}

/// Charges fuel before copying bytes, one unit per 8. Otherwise a guest could copy large texts endlessly.
fn charge(guest: &mut Guest<'_>, bytes: usize) -> Result<()> {
    spend(guest, bytes as u64 / 8)
}

fn spend(guest: &mut Guest<'_>, fuel: u64) -> Result<()> {
    match guest.get_fuel().unwrap_or(0).checked_sub(fuel) {
        Some(left) => guest.set_fuel(left),
        None => Err(Trap::OutOfFuel.into()),
    }
}

fn put(guest: &mut Guest<'_>, at: u32, bytes: &[u8]) -> Result<Option<()>> {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let Some((memory, range)) = of_memory(guest, at, len) else { return Ok(None) };
    charge(guest, bytes.len())?;
    let buffer = memory.data_mut(&mut *guest).get_mut(range);
    Ok(buffer.map(|buffer| buffer.copy_from_slice(bytes)))
}

/// Writes if it fits, and returns the length.
fn write(guest: &mut Guest<'_>, bytes: &[u8], at: u32, limit: u32) -> Result<u32> {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    if len > 0 && len <= limit {
        put(guest, at, bytes)?.ok_or_else(|| answer("out of memory: the buffer is outside of the memory"))?;
    }
    Ok(len)
}

fn len32(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes()
}

fn errno(put: Result<Option<()>>) -> Result<i32> {
    Ok(if put?.is_some() { 0 } else { EFAULT })
}

fn answer(text: impl std::fmt::Display) -> wasmtime::Error {
    Fault::new(FaultKind::Answer, text).into()
}

fn missing(text: impl std::fmt::Display) -> wasmtime::Error {
    Fault::new(FaultKind::Import, text).into()
}
