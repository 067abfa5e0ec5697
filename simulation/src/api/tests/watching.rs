//! Tests of watches.

use super::*;

/// Formats the next event of a stream of pods: a letter and the name, or the version of a bookmark.
pub(super) async fn next(stream: &mut (impl Stream<Item = kube::Result<WatchEvent<Pod>>> + Unpin)) -> String {
    let name = |pod: Pod| pod.metadata.name.unwrap_or_default();
    match timeout(SECOND * 300, stream.next()).await {
        Err(_) => "silence".to_owned(),
        Ok(None) => "end".to_owned(),
        Ok(Some(Err(_))) => "broken".to_owned(),
        Ok(Some(Ok(WatchEvent::Added(pod)))) => format!("+{}", name(pod)),
        Ok(Some(Ok(WatchEvent::Modified(pod)))) => format!("~{}", name(pod)),
        Ok(Some(Ok(WatchEvent::Deleted(pod)))) => format!("-{}", name(pod)),
        Ok(Some(Ok(WatchEvent::Error(status)))) => format!("error {}", status.code),
        Ok(Some(Ok(WatchEvent::Bookmark(mark)))) => {
            let ends = mark.metadata.annotations.contains_key("k8s.io/initial-events-end");
            format!("={}{}", mark.metadata.resource_version, if ends { " all" } else { "" })
        }
    }
}

pub(super) async fn open(
    pods: &Objects<Pod>,
    params: &WatchParams,
    version: &str,
) -> impl Stream<Item = kube::Result<WatchEvent<Pod>>> + Unpin + use<> {
    Box::pin(pods.watch(params, version).await.expect("a stream"))
}

#[tokio::test(start_paused = true)]
async fn a_stream_tells_what_changes_after_a_version() {
    let api = api();
    let (pods, world) = (pods(&api), api.actor("world"));
    let first = world.create(Kind::Pod, pod("a")).expect("made").version();
    world.create(Kind::Pod, pod("b")).expect("made");
    let mut stream = open(&pods, &WatchParams::default(), &first.to_string()).await;
    world.change(Kind::Pod, "default/a", |pod| pod["metadata"]["labels"] = json!({ "a": "b" })).expect("changed");
    world.delete(Kind::Pod, "default/a", &Deletion::default()).expect("deleted");
    for expected in ["+b", "~a", "-a"] {
        assert_eq!(next(&mut stream).await, expected);
    }
    drop(stream);
    assert_eq!(api.lock().streams.len(), 0, "what is dropped is closed");
}

#[tokio::test(start_paused = true)]
async fn without_a_version_a_stream_begins_with_what_there_is() {
    let api = api();
    let (pods, world) = (pods(&api), api.actor("world"));
    for name in ["a", "b"] {
        world.create(Kind::Pod, pod(name)).expect("made");
    }
    for version in ["", "0"] {
        let mut stream = open(&pods, &WatchParams::default(), version).await;
        assert_eq!((next(&mut stream).await, next(&mut stream).await), ("+a".to_owned(), "+b".to_owned()));
    }
    let list = WatchParams::default().initial_events();
    let mut stream = open(&pods, &list, "").await;
    let version = api.look(Store::version);
    for expected in ["+a", "+b", &format!("={version} all")] {
        assert_eq!(next(&mut stream).await, expected);
    }
    world.create(Kind::Pod, pod("c")).expect("made");
    assert_eq!(next(&mut stream).await, "+c");
    let mut future = open(&pods, &list, "1000").await;
    assert_eq!((next(&mut future).await, next(&mut future).await), ("error 504".to_owned(), "end".to_owned()));
    let options = Options { lists_by_watch: false, ..Options::default() };
    let older = Api::new(Seed::new(1), options);
    assert_eq!(code(super::pods(&older).watch(&list, "").await.map(drop)), 422);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_some_pods_tells_when_one_begins_and_ceases_to_be_one_of_them() {
    let api = api();
    let (pods, world) = (pods(&api), api.actor("world"));
    let begun = api.look(Store::version).to_string();
    let live = WatchParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let (mut live, mut web) =
        (open(&pods, &live, &begun).await, open(&pods, &WatchParams::default().labels("app=web"), &begun).await);
    world.create(Kind::Pod, pod("a")).expect("made");
    let set = |place: &str, name: &str, value: &str| {
        world.change(Kind::Pod, "default/a", |pod| pod[place][name] = json!(value)).expect("changed")
    };
    world.change(Kind::Pod, "default/a", |pod| pod["metadata"]["labels"] = json!({ "app": "web" })).expect("changed");
    set("status", "phase", "Running");
    let ended = set("status", "phase", "Succeeded").version();
    world.change(Kind::Pod, "default/a", |pod| pod["metadata"]["labels"] = json!({})).expect("changed");
    for expected in ["+a", "~a", "~a"] {
        assert_eq!(next(&mut live).await, expected);
    }
    let Some(Ok(WatchEvent::Deleted(gone))) = live.next().await else { panic!("it is none of them any more") };
    assert_eq!(gone.metadata.resource_version, Some(ended.to_string()), "the version is that of the change");
    assert_eq!(gone.status.and_then(|status| status.phase).as_deref(), Some("Running"), "the state is the one before");
    for expected in ["+a", "~a", "~a", "-a"] {
        assert_eq!(next(&mut web).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_shortly_before_the_end() {
    let api = api();
    let (pods, world) = (pods(&api), api.actor("world"));
    let mut stream = open(&pods, &WatchParams::default().timeout(90), "1").await;
    let begun = Instant::now();
    world.create(Kind::Pod, pod("a")).expect("made");
    assert_eq!(next(&mut stream).await, "+a");
    sleep(SECOND * 30).await;
    let other = world.create(Kind::Node, json!({ "metadata": { "name": "n1" } })).expect("made").version();
    assert_eq!(next(&mut stream).await, format!("={other}"), "the progress of etcd is told, too");
    assert!((60..=61).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(next(&mut stream).await, format!("={other}"));
    assert_eq!(begun.elapsed().as_secs(), 88);
    assert_eq!(next(&mut stream).await, "end");
    assert_eq!(begun.elapsed().as_secs(), 90);
    let mut short = open(&pods, &WatchParams::default().timeout(3), "1").await;
    let begun = Instant::now();
    assert_eq!((next(&mut short).await, next(&mut short).await), ("+a".to_owned(), format!("={other}")));
    assert_eq!(begun.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_kept_any_more_is_gone() {
    let options = Options { window: 3, ..Options::default() };
    let api = Api::new(Seed::new(1), options);
    let (pods, world) = (pods(&api), api.actor("world"));
    let versions: Vec<u64> =
        (0..6).map(|index| world.create(Kind::Pod, pod(&format!("p{index}"))).expect("made").version()).collect();
    let mut old = open(&pods, &WatchParams::default(), &versions[1].to_string()).await;
    assert_eq!((next(&mut old).await, next(&mut old).await), ("error 410".to_owned(), "end".to_owned()));
    let mut kept = open(&pods, &WatchParams::default(), &versions[2].to_string()).await;
    for expected in ["+p3", "+p4", "+p5"] {
        assert_eq!(next(&mut kept).await, expected);
    }
    let page = pods.list(&ListParams::default().limit(1)).await.expect("a page");
    for index in 6..12 {
        world.create(Kind::Pod, pod(&format!("p{index}"))).expect("made");
    }
    let token = page.metadata.continue_.expect("more");
    assert_eq!(code(pods.list(&ListParams::default().continue_token(&token)).await), 410);
}

#[tokio::test(start_paused = true)]
async fn each_client_sees_changes_when_its_own_cache_has_them() {
    let options = Options { lag_ms: 1_000, ..Options::default() };
    let api = Api::new(Seed::new(1), options);
    let world = api.actor("world");
    let mut seen = Vec::new();
    for client in ["one", "two", "three"] {
        let pods: Objects<Pod> = Objects::namespaced(api.client(client), "default");
        let stream = open(&pods, &WatchParams::default(), &api.look(Store::version).to_string()).await;
        seen.push(tokio::spawn(async move {
            let mut stream = stream;
            let mut times = Vec::new();
            for index in 0..5 {
                assert_eq!(next(&mut stream).await, format!("+p{index}"), "in order");
                times.push(Instant::now());
            }
            times
        }));
    }
    for index in 0..5 {
        world.create(Kind::Pod, pod(&format!("p{index}"))).expect("made");
    }
    let mut times = Vec::new();
    for task in seen {
        times.push(task.await.expect("no panic"));
    }
    assert!(times[0] != times[1] && times[1] != times[2], "{times:?}");
}
