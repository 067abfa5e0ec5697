//! What a module may ask the host for: the imports of kube-scheduler-wasm-extension v0.1 and what the runtimes of languages
//! need of WASI.
//!
//! A read has a buffer and its limit, and gives the length: what fits is written, of what does not fit nothing is.
//! Nothing that a module is told depends on when, where or how often it is asked.
//!
//! Source: `scheduler/plugin/host.go` and `mem.go` of kubernetes-sigs/kube-scheduler-wasm-extension.

use tracing::{error, info, warn};
use wasmtime::{Caller, Extern, Linker, Result};

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
        let name = read(&mut guest, name, len).ok_or_else(|| answer("out of memory reading nodeName"))?;
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
        write(&mut guest, encode::scores(&scores).as_bytes(), buffer, limit)
    })?;
    linker.func_wrap(SCHEDULER, "result.status_reason", |mut guest: Guest<'_>, text: u32, len: u32| {
        let reason = read(&mut guest, text, len);
        let reason =
            reason.as_deref().map_or_else(|| "BUG: out of memory reading message".into(), String::from_utf8_lossy);
        guest.data_mut().reason = reason.into_owned();
    })?;
    linker.func_wrap(SCHEDULER, "result.node_names", |mut guest: Guest<'_>, text: u32, len: u32| {
        let bytes = read(&mut guest, text, len).ok_or_else(|| answer("out of memory reading nodeNames"))?;
        guest.data_mut().node_names = Some(texts(&bytes));
        Ok(())
    })?;
    linker.func_wrap(SCHEDULER, "result.cluster_events", |mut guest: Guest<'_>, events: u32, len: u32| {
        let bytes = read(&mut guest, events, len).ok_or_else(|| answer("out of memory reading clusterEvents"))?;
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or(0);
        let event = |event: &[u8]| (number(&event[..4]), number(&event[4..]));
        guest.data_mut().events = bytes.chunks_exact(8).map(event).collect();
        Ok(())
    })?;
    linker.func_wrap(SCHEDULER, "result.normalized_score_list", |mut guest: Guest<'_>, json: u32, len: u32| {
        let json = read(&mut guest, json, len).ok_or_else(|| answer("out of memory reading normalized score list"))?;
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
        log(&mut guest, severity, (text, len), (0, 0));
    })?;
    linker.func_wrap(
        KLOG,
        "logs",
        |mut guest: Guest<'_>, severity: i32, text: u32, len: u32, pairs: u32, pairs_len: u32| {
            log(&mut guest, severity, (text, len), (pairs, pairs_len));
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
        // Not more at once than a guest can have asked for in its memory.
        if read(&mut guest, at, len).is_none() {
            return EFAULT;
        }
        let words = (0..len.div_ceil(8)).map(|_| guest.data_mut().draw()).collect::<Vec<_>>();
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).take(len as usize).collect();
        errno(put(&mut guest, at, &bytes))
    })?;
    linker.func_wrap(WASI, "args_sizes_get", |mut guest: Guest<'_>, count: u32, bytes: u32| {
        let setting = guest.data().setting.clone();
        let total: usize = setting.args.iter().map(|arg| arg.len() + 1).sum();
        let put_count = put(&mut guest, count, &len32(setting.args.len()));
        errno(put_count.and_then(|()| put(&mut guest, bytes, &len32(total))))
    })?;
    linker.func_wrap(WASI, "args_get", |mut guest: Guest<'_>, list: u32, mut text: u32| {
        let setting = guest.data().setting.clone();
        for (place, arg) in (0..).zip(&setting.args) {
            let bytes = [arg.as_bytes(), b"\0"].concat();
            let put_place = put(&mut guest, list.wrapping_add(4 * place), &text.to_le_bytes());
            if put_place.and_then(|()| put(&mut guest, text, &bytes)).is_none() {
                return EFAULT;
            }
            text = text.wrapping_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        0
    })?;
    linker.func_wrap(WASI, "environ_sizes_get", |mut guest: Guest<'_>, count: u32, bytes: u32| {
        errno(put(&mut guest, count, &[0; 4]).and_then(|()| put(&mut guest, bytes, &[0; 4])))
    })?;
    linker.func_wrap(WASI, "environ_get", |_: Guest<'_>, _: u32, _: u32| 0)?;
    // Whoever sleeps would wait for a clock that stands still.
    linker.func_wrap(WASI, "poll_oneoff", |_: Guest<'_>, _: u32, _: u32, _: u32, _: u32| ENOSYS)?;
    Ok(())
}

/// There are no files but the standard output and error.
fn link_wasi_files(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(WASI, "fd_write", |mut guest: Guest<'_>, fd: i32, list: u32, count: u32, written: u32| {
        if !(1..=2).contains(&fd) {
            return EBADF;
        }
        let mut total = 0_u32;
        for place in 0..count.min(1024) {
            let Some(entry) = read(&mut guest, list.wrapping_add(8 * place), 8) else { return EFAULT };
            let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or(0);
            let Some(text) = read(&mut guest, number(&entry[..4]), number(&entry[4..])) else { return EFAULT };
            guest.data_mut().print(&text);
            total = total.saturating_add(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        errno(put(&mut guest, written, &total.to_le_bytes()))
    })?;
    linker.func_wrap(WASI, "fd_read", |_: Guest<'_>, _: i32, _: u32, _: u32, _: u32| EBADF)?;
    linker.func_wrap(WASI, "fd_close", |_: Guest<'_>, _: i32| EBADF)?;
    linker.func_wrap(WASI, "fd_seek", |_: Guest<'_>, _: i32, _: i64, _: i32, _: u32| EBADF)?;
    linker.func_wrap(WASI, "fd_fdstat_get", |mut guest: Guest<'_>, fd: i32, at: u32| {
        // A character device, without rights.
        let stat: [u8; 24] = std::array::from_fn(|place| if place == 0 { 2 } else { 0 });
        if (0..=2).contains(&fd) { errno(put(&mut guest, at, &stat)) } else { EBADF }
    })?;
    linker.func_wrap(WASI, "fd_fdstat_set_flags", |_: Guest<'_>, _: i32, _: i32| EBADF)?;
    linker.func_wrap(WASI, "fd_prestat_get", |_: Guest<'_>, _: i32, _: u32| EBADF)?;
    linker.func_wrap(WASI, "fd_prestat_dir_name", |_: Guest<'_>, _: i32, _: u32, _: u32| EBADF)?;
    Ok(())
}

fn log(guest: &mut Guest<'_>, severity: i32, (text, len): (u32, u32), (pairs, pairs_len): (u32, u32)) {
    let setting = guest.data().setting.clone();
    if severity < setting.severity {
        return;
    }
    let Some(text) = read(guest, text, len) else { return };
    let mut text = String::from_utf8_lossy(&text).into_owned();
    for pair in texts(&read(guest, pairs, pairs_len).unwrap_or_default()).chunks(2) {
        text.push_str(&format!(" {}={:?}", pair[0], pair.get(1).map_or("(MISSING)", String::as_str)));
    }
    match severity {
        WARNING => warn!(plugin = setting.plugin, "{text}"),
        ..WARNING => info!(plugin = setting.plugin, "{text}"),
        ERROR.. => error!(plugin = setting.plugin, "{text}"),
    }
}

/// Texts, each of which ends with a NUL.
fn texts(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

fn read(guest: &mut Guest<'_>, at: u32, len: u32) -> Option<Vec<u8>> {
    let Some(Extern::Memory(memory)) = guest.get_export("memory") else { return None };
    let bytes = memory.data(&*guest).get(at as usize..)?.get(..len as usize).map(<[u8]>::to_vec);
    charge(guest, len as usize);
    bytes
}

/// Copying costs fuel too, a unit for each 8 bytes: else a guest that has large texts copied again and again would never end.
fn charge(guest: &mut Guest<'_>, bytes: usize) {
    let left = guest.get_fuel().unwrap_or(0);
    let _ = guest.set_fuel(left.saturating_sub(bytes as u64 / 8));
}

fn put(guest: &mut Guest<'_>, at: u32, bytes: &[u8]) -> Option<()> {
    let Some(Extern::Memory(memory)) = guest.get_export("memory") else { return None };
    memory.data_mut(&mut *guest).get_mut(at as usize..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
    charge(guest, bytes.len());
    Some(())
}

/// Writes where it fits, and gives the length.
fn write(guest: &mut Guest<'_>, bytes: &[u8], at: u32, limit: u32) -> Result<u32> {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    if len > 0 && len <= limit {
        put(guest, at, bytes).ok_or_else(|| answer("out of memory: the buffer is outside of the memory"))?;
    }
    Ok(len)
}

fn len32(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes()
}

const fn errno(put: Option<()>) -> i32 {
    if put.is_some() { 0 } else { EFAULT }
}

fn answer(text: &str) -> wasmtime::Error {
    Fault::new(FaultKind::Answer, text).into()
}

fn missing(text: impl std::fmt::Display) -> wasmtime::Error {
    Fault::new(FaultKind::Import, text).into()
}
