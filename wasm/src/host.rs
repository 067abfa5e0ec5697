//! What a module may ask the host for: the imports of kube-scheduler-wasm-extension v0.1 and what the runtimes of languages
//! need of WASI.
//!
//! A read has a buffer and its limit, and gives the length: what fits is written, of what does not fit nothing is.
//! Nothing that a module is told depends on when, where or how often it is asked.
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

/// The modules that a guest imports from.
const API: &str = "k8s.io/api";
const SCHEDULER: &str = "k8s.io/scheduler";
const KLOG: &str = "k8s.io/klog";
const WASI: &str = "wasi_snapshot_preview1";

/// The most bytes that a guest passes to the host in one call. Copying 1 MiB takes some 0.1 ms.
const MOST_BYTES: usize = 1 << 20;
/// The most bytes of a normalised list for each node: a name of 13, a score of up to 20, quotes and white space.
const SCORE_BYTES: usize = 64;
/// The most names of nodes that `prefilter` leaves. Kubernetes supports 5,000 nodes; a class keeps some 60 bytes of each name, 4 MB.
const MOST_NAMES: usize = 1 << 16;
/// The most bytes of a text, and of its pairs, that are logged. The rest is cut off.
const MOST_LOGGED: usize = 16 << 10;
/// The fuel for a line of the log, in addition to its bytes: writing one takes some 10 us. A call logs at most
/// 20,000,000 / 1,000 = 20,000 lines by default.
const LINE: u64 = 1_000;

/// `errno` of WASI: not a file, no such function, a bad address.
const EBADF: i32 = 8;
const ENOSYS: i32 = 52;
const EFAULT: i32 = 21;

/// What a clock says, in nanoseconds since 1970: always the same.
const NOW_NS: u64 = 1_577_836_800_000_000_000;

/// The severities of klog.
const WARNING: i32 = 1;
const ERROR: i32 = 2;

type Guest<'a> = Caller<'a, State>;

/// The guest left its process by `proc_exit`.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("module closed with exit_code({0})")]
pub(crate) struct Exit(pub(crate) i32);

/// Defines all of them.
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
        // They are encoded to know their length, whether they fit or not.
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

/// What other extension points than those that are run ask for, and what needs the whole cluster.
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
    // An event would be written as often as the verdict is computed, so that it is dropped.
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
    // Whoever sleeps would wait for a clock that stands still.
    linker.func_wrap(WASI, "poll_oneoff", |_: Guest<'_>, _: u32, _: u32, _: u32, _: u32| ENOSYS)?;
    Ok(())
}

/// There are no files but the standard output and error.
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

/// `fd_write`: writes at most as much as one call may pass, so that the guest calls again for the rest.
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

/// Texts, each of which ends with a NUL.
fn texts(bytes: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let texts = (!bytes.is_empty()).then(|| bytes.split(|&byte| byte == 0));
    texts.into_iter().flatten().map(String::from_utf8_lossy)
}

/// The bytes that a guest passes; `None`: they are outside of its memory.
///
/// # Errors
/// They are more than a call may pass, or more than the fuel is enough for.
fn read(guest: &mut Guest<'_>, call: &str, at: u32, len: u32) -> Result<Option<Vec<u8>>> {
    read_at_most(guest, call, MOST_BYTES, at, len)
}

fn read_at_most(guest: &mut Guest<'_>, call: &str, most: usize, at: u32, len: u32) -> Result<Option<Vec<u8>>> {
    let Some((memory, range)) = of_memory(guest, at, len) else { return Ok(None) };
    bound(call, len as usize, most)?;
    charge(guest, len as usize)?;
    Ok(memory.data(&*guest).get(range).map(<[u8]>::to_vec))
}

/// The memory of a guest, and a range that is within it.
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

/// How many bytes a list of the scores of all nodes takes.
fn bytes_of(scores: &[(i64, usize)]) -> usize {
    scores.iter().map(|(_, nodes)| nodes * SCORE_BYTES).sum()
}

/// Takes the fuel for so many bytes, a unit for each 8, before they are copied: otherwise a guest that copies large texts again and again
/// would never end.
///
/// # Errors
/// The fuel is not enough, and nothing must be copied.
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

/// Writes where it fits, and gives the length.
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
