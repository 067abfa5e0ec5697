//! Tests of faults.

use super::{
    watching::{next, open},
    *,
};

const ALWAYS: u16 = 1_000;

/// Creates pods sequentially, and returns the codes; 0 for a connection error.
async fn create(api: &Api, count: usize) -> Vec<u16> {
    let pods = pods(api);
    let mut codes = Vec::new();
    for index in 0..count {
        codes.push(code(pods.create(&PostParams::default(), &typed(&format!("p{index}"))).await));
    }
    codes
}

fn committed(api: &Api) -> usize {
    api.look(|store| store.objects(Kind::Pod).count())
}

#[tokio::test(start_paused = true)]
async fn a_request_is_refused_or_lost_before_or_after_it_is_committed() {
    for (faults, codes, commits) in [
        (Faults { turned_away: ALWAYS, ..Faults::NONE }, &[429][..], 0),
        (Faults { throttled: ALWAYS, ..Faults::NONE }, &[429], 0),
        (Faults { failed_before: ALWAYS, ..Faults::NONE }, &[500, 503, 504], 0),
        (Faults { failed_after: ALWAYS, ..Faults::NONE }, &[500, 504], 30),
        (Faults { lost_before: ALWAYS, ..Faults::NONE }, &[0], 0),
        (Faults { lost_after: ALWAYS, ..Faults::NONE }, &[0], 30),
        (Faults::NONE, &[200], 30),
    ] {
        let api = with(faults);
        let mut answered = create(&api, 30).await;
        answered.sort_unstable();
        answered.dedup();
        assert_eq!((&*answered, committed(&api)), (codes, commits), "{faults:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_turned_away_is_told_how_long_or_not() {
    let pause = async |faults| {
        let request = http::Request::get("/api/v1/pods").body(Vec::new().into()).expect("a request");
        let answer = with(faults).client("one").send(request).await.expect("answered");
        let header = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        (answer.status().as_u16(), header.is_some_and(|seconds: u32| (1..=5).contains(&seconds)))
    };
    assert_eq!(pause(Faults { turned_away: ALWAYS, ..Faults::NONE }).await, (429, true));
    assert_eq!(pause(Faults { throttled: ALWAYS, ..Faults::NONE }).await, (429, false));
}

#[tokio::test(start_paused = true)]
async fn a_request_may_get_no_answer_whether_it_is_committed_or_not() {
    let api = with(Faults { silent: ALWAYS, ..Faults::NONE });
    let begun = Instant::now();
    assert_eq!(create(&api, 20).await, [0; 20]);
    assert_eq!(begun.elapsed().as_secs() / 20, 65, "the client gives up");
    assert!((1..20).contains(&committed(&api)), "{}", committed(&api));
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_takes_as_long_as_it_may() {
    let api = with(Faults { slow: ALWAYS, slow_ms: 8_000, ..Faults::NONE });
    let mut longest = Duration::ZERO;
    for index in 0..20 {
        let begun = Instant::now();
        let pod = typed(&format!("p{index}"));
        pods(&api).create(&PostParams::default(), &pod).await.expect("made");
        longest = longest.max(begun.elapsed());
    }
    assert!((SECOND * 8..SECOND * 17).contains(&longest), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_may_be_carried_out_all_the_same() {
    for (survives, commits) in [(0, 0), (ALWAYS, 20)] {
        let api = with(Faults { slow: ALWAYS, slow_ms: 8_000, survives, ..Faults::NONE });
        for index in 0..20 {
            let pod = typed(&format!("p{index}"));
            let pods = pods(&api);
            let given_up = timeout(Duration::from_millis(1), pods.create(&PostParams::default(), &pod)).await;
            assert!(given_up.is_err(), "the seed has it arrive later");
        }
        assert!(committed(&api) < 20);
        sleep(SECOND).await;
        assert_eq!((committed(&api), api.lock().server.awaits()), (commits, 0), "{survives}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_goes_on_where_it_was_and_loses_nothing() {
    let api = with(Faults { cuts: 300, ..Faults::NONE });
    let (pods, world) = (pods(&api), api.actor("world"));
    let (mut version, mut told, mut breaks) = ("1".to_owned(), Vec::new(), 0);
    let mut stream = open(&pods, &WatchParams::default(), &version).await;
    for index in 0..30 {
        world.create(Kind::Pod, pod(&format!("p{index}"))).expect("made");
        while told.len() <= index {
            match stream.next().await {
                Some(Ok(WatchEvent::Added(pod))) => {
                    version = pod.metadata.resource_version.expect("a version");
                    told.push(pod.metadata.name.expect("a name"));
                }
                _ => {
                    breaks += 1;
                    stream = open(&pods, &WatchParams::default(), &version).await;
                }
            }
        }
    }
    assert_eq!(told, (0..30).map(|index| format!("p{index}")).collect::<Vec<_>>());
    assert!(breaks > 3, "{breaks}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_too_far_behind_or_falls_silent_or_repeats_itself() {
    for (faults, expected) in [
        (Faults { expires: ALWAYS, ..Faults::NONE }, &["error 410", "end"][..]),
        (Faults { falls_silent: ALWAYS, ..Faults::NONE }, &["silence"]),
        (Faults { duplicates: ALWAYS, ..Faults::NONE }, &["+a", "+a", "+b", "+b", "end"]),
        (Faults { replays: ALWAYS, ..Faults::NONE }, &["+z", "+a", "+b", "end"]),
        (Faults::NONE, &["+a", "+b", "end"]),
    ] {
        let api = with(faults);
        let (pods, world) = (pods(&api), api.actor("world"));
        let version = world.create(Kind::Pod, pod("z")).expect("made").version();
        let mut stream = open(&pods, &WatchParams::default().timeout(60), &version.to_string()).await;
        for name in ["a", "b"] {
            world.create(Kind::Pod, pod(name)).expect("made");
        }
        for what in expected {
            let mut told = next(&mut stream).await;
            while told.starts_with('=') {
                told = next(&mut stream).await;
            }
            assert_eq!(told, *what, "{faults:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_page_may_expire() {
    let api = with(Faults { pages_expire: ALWAYS, ..Faults::NONE });
    for name in ["a", "b"] {
        api.actor("world").create(Kind::Pod, pod(name)).expect("made");
    }
    let page = pods(&api).list(&ListParams::default().limit(1)).await.expect("a page");
    let token = page.metadata.continue_.expect("more");
    assert_eq!(code(pods(&api).list(&ListParams::default().limit(1).continue_token(&token)).await), 410);
}

#[tokio::test(start_paused = true)]
async fn a_stream_tells_a_change_only_once_its_cache_has_it() {
    let api = with(Faults { stalls: ALWAYS, stall_ms: 60_000, ..Faults::NONE });
    let pods = pods(&api);
    let mut stream = open(&pods, &WatchParams::default(), "1").await;
    let begun = Instant::now();
    api.actor("world").create(Kind::Pod, pod("a")).expect("made");
    assert_eq!(next(&mut stream).await, "+a");
    assert!(begun.elapsed() > SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_restart_breaks_every_connection_and_caches_may_begin_with_the_past() {
    let mut behind = 0;
    for seed in 0..20 {
        let api = Api::new(Seed::new(seed), Options::default());
        let (pods, world) = (pods(&api), api.actor("world"));
        let version = world.create(Kind::Pod, pod("a")).expect("made").version();
        let mut stream = open(&pods, &WatchParams::default(), &version.to_string()).await;
        sleep(SECOND * 10).await;
        world.create(Kind::Pod, pod("b")).expect("made");
        assert_eq!(next(&mut stream).await, "+b");
        api.set_faults(Faults { stalls: 250, stall_ms: 10_000, ..Faults::NONE });
        api.restart(SECOND);
        assert_eq!((next(&mut stream).await, next(&mut stream).await), ("broken".to_owned(), "end".to_owned()));
        assert_eq!(code(pods.get("a").await), 0, "connections are refused");
        sleep(SECOND).await;
        let any = ListParams { resource_version: Some("0".to_owned()), ..ListParams::default() };
        behind += usize::from(pods.list(&any).await.expect("a list").items.len() == 1);
        assert_eq!(pods.list(&ListParams::default()).await.expect("a list").items.len(), 2);
        let mut old = open(&pods, &WatchParams::default(), &(version - 1).to_string()).await;
        assert_eq!(next(&mut old).await, "error 410", "caches know the last state only");
    }
    assert!((5..20).contains(&behind), "{behind} of 20");
}

#[tokio::test(start_paused = true)]
async fn a_restore_goes_back_in_time_and_versions_come_again() {
    let api = api();
    let (pods, world) = (pods(&api), api.actor("world"));
    let kept = world.create(Kind::Pod, pod("kept")).expect("made").version();
    let lost = world.create(Kind::Pod, pod("lost")).expect("made");
    let mut stream = open(&pods, &WatchParams::default(), "1").await;
    assert_eq!((next(&mut stream).await, next(&mut stream).await), ("+kept".to_owned(), "+lost".to_owned()));
    api.restore(Duration::ZERO, kept);
    assert_eq!(next(&mut stream).await, "broken");
    let list = pods.list(&ListParams::default()).await.expect("a list");
    assert_eq!((list.items.len(), list.metadata.resource_version), (1, Some(kept.to_string())));
    let again = world.create(Kind::Pod, pod("lost")).expect("made");
    assert_eq!(again.version(), lost.version());
    assert_ne!(again.uid(), lost.uid());
    assert_eq!(api.commits(3).len(), 3, "the history has both");
    let mut future = open(&pods, &WatchParams::default().timeout(10), &(lost.version() + 5).to_string()).await;
    assert_eq!(
        next(&mut future).await,
        format!("={}", again.version()),
        "a future that was taken back tells no changes"
    );
    assert_eq!(next(&mut future).await, "end");
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_that_raises_versions_no_earlier_one_is_gone_on_from() {
    let api = api();
    let (pods, world) = (pods(&api), api.actor("world"));
    let kept = world.create(Kind::Pod, pod("kept")).expect("made").version();
    let lost = world.create(Kind::Pod, pod("lost")).expect("made").version();
    api.restore_and_bump(Duration::ZERO, kept);
    for version in [kept, lost] {
        let mut old = open(&pods, &WatchParams::default(), &version.to_string()).await;
        assert_eq!(next(&mut old).await, "error 410", "{version}");
    }
    let list = pods.list(&ListParams::default()).await.expect("a list");
    let version = list.metadata.resource_version.expect("a version");
    assert_eq!((list.items.len(), version.parse::<u64>().is_ok_and(|version| version > lost)), (1, true), "{version}");
    let mut stream = open(&pods, &WatchParams::default(), &version).await;
    world.create(Kind::Pod, pod("lost")).expect("made");
    assert_eq!(next(&mut stream).await, "+lost");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_cut_off_hears_nothing_and_others_do() {
    let api = api();
    let others: Objects<Pod> = Objects::namespaced(api.client("two"), "default");
    let pods = pods(&api);
    let mut stream = open(&pods, &WatchParams::default(), "1").await;
    let mut other = open(&others, &WatchParams::default(), "1").await;
    api.partition("one", true);
    let waiting = {
        let pods = pods.clone();
        tokio::spawn(async move { code(pods.create(&PostParams::default(), &typed("b")).await) })
    };
    api.actor("world").create(Kind::Pod, pod("a")).expect("made");
    assert_eq!(next(&mut other).await, "+a");
    sleep(SECOND * 10).await;
    assert!(!waiting.is_finished() && committed(&api) == 1);
    api.partition("one", false);
    assert_eq!(waiting.await.expect("no panic"), 200, "what was held up arrives");
    assert_eq!((next(&mut stream).await, next(&mut stream).await), ("+a".to_owned(), "+b".to_owned()));
    let begun = Instant::now();
    api.partition("one", true);
    assert_eq!((code(pods.get("a").await), next(&mut stream).await), (0, "broken".to_owned()));
    assert_eq!(begun.elapsed().as_secs(), 45, "the kernel gives the connections up");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_deaf_is_heard_and_does_not_know_it() {
    let api = api();
    let pods = pods(&api);
    let mut stream = open(&pods, &WatchParams::default(), "1").await;
    api.deafen("one", true);
    assert_eq!(code(pods.create(&PostParams::default(), &typed("a")).await), 0, "the kernel gives the connection up");
    assert_eq!((committed(&api), next(&mut stream).await), (1, "broken".to_owned()));
    let begun = Instant::now();
    assert_eq!(code(pods.create(&PostParams::default(), &typed("b")).await), 0, "the client gives up");
    assert_eq!((committed(&api), begun.elapsed().as_secs()), (2, 65));
    api.deafen("one", false);
    assert_eq!(code(pods.create(&PostParams::default(), &typed("c")).await), 200);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_in_a_partition_never_arrives() {
    let api = with(Faults { survives: ALWAYS, ..Faults::NONE });
    api.partition("one", true);
    let pods = pods(&api);
    let pod = typed("a");
    assert!(timeout(SECOND, pods.create(&PostParams::default(), &pod)).await.is_err());
    sleep(SECOND).await;
    api.partition("one", false);
    sleep(SECOND).await;
    assert_eq!(committed(&api), 0);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_not_found() {
    let options = Options { unserved: vec![Kind::Pod], ..Options::default() };
    let api = Api::new(Seed::new(1), options);
    assert_eq!(code(pods(&api).list(&ListParams::default()).await), 404);
    assert_eq!(code(pods(&api).watch(&WatchParams::default(), "1").await.map(drop)), 404);
}

/// Disabled faults draw nothing, and no failure lasts: a client that retries succeeds once faults end.
#[tokio::test(start_paused = true)]
async fn once_the_faults_are_switched_off_everything_is_done_and_told() {
    for seed in 0..30 {
        let api = Api::new(Seed::new(seed), Options::default());
        api.set_faults(Faults::draw(&mut Seed::new(seed)));
        let tries = pods(&api);
        for index in 0..30 {
            let pod = typed(&format!("p{index}"));
            let _ = timeout(SECOND * 5, tries.create(&PostParams::default(), &pod)).await;
        }
        api.set_faults(Faults::NONE);
        sleep(SECOND * 70).await;
        assert_eq!(api.lock().server.awaits(), 0, "seed {seed}");
        let codes = create(&api, 30).await;
        assert!(codes.iter().all(|code| matches!(code, 200 | 409)), "seed {seed}: {codes:?}");
        let list = WatchParams::default().initial_events();
        let mut stream = open(&tries, &list, "").await;
        let mut told = 0;
        while !next(&mut stream).await.starts_with('=') {
            told += 1;
        }
        assert_eq!(told, 30, "seed {seed}");
    }
}
