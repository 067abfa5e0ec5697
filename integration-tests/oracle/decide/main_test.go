package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"flotilla/integration-tests/oracle/decide/judge"
)

const three = `
kind: Node
apiVersion: v1
metadata: {name: b}
status: {capacity: {cpu: "4", memory: 8Gi}}
---
kind: Node
apiVersion: v1
metadata: {name: c, labels: {disk: ssd}}
status: {capacity: {cpu: "2", memory: 8Gi}}
---
kind: Node
apiVersion: v1
metadata: {name: a}
spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
status: {capacity: {cpu: "4", memory: 8Gi}}
---
`

// pod returns a pod with a CPU request and further spec fields.
func pod(name, cpu, spec string) string {
	text := `
kind: Pod
apiVersion: v1
metadata: {name: ` + name + `}
spec:
  containers: [{name: main, image: web, resources: {requests: {cpu: "` + cpu + `"}}}]
`
	if spec != "" {
		text += "  " + spec + "\n"
	}
	return text + "---\n"
}

// decideText evaluates a text, with additional arguments.
func decideText(t *testing.T, text string, arguments ...string) (code int, out, problems string) {
	t.Helper()
	path := write(t, "cluster.yaml", text)
	var stdout, stderr bytes.Buffer
	code = run(append(arguments, path), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func answers(t *testing.T, text string, arguments ...string) []judge.Answer {
	t.Helper()
	code, out, problems := decideText(t, text, arguments...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, problems)
	}
	var read []judge.Answer
	for line := range strings.Lines(out) {
		var answer judge.Answer
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			t.Fatal(err)
		}
		read = append(read, answer)
	}
	return read
}

func TestMessagesAreThoseOfAFitError(t *testing.T) {
	cases := map[string]struct{ spec, message string }{
		"filters": {
			"", "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.",
		},
		"a plugin's PreFilter rejects": {
			"volumes: [{name: data, persistentVolumeClaim: {claimName: none}}]",
			`0/3 nodes are available: persistentvolumeclaim "none" not found.`,
		},
		"PreFilter names a node": {
			"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " +
				"[{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}}}",
			"0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
		},
		"PreFilter names a node that is not there": {
			"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " +
				"[{matchFields: [{key: metadata.name, operator: In, values: [gone]}]}]}}}",
			"0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
		},
		"terms contradict each other": {
			"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " +
				"[{matchFields: [{key: metadata.name, operator: In, values: [a]}, {key: metadata.name, operator: In, values: [b]}]}]}}}",
			"0/3 nodes are available: pod affinity terms conflict.",
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			answer := answers(t, three+pod("big", "8", test.spec))[0]
			if answer.Message != test.message || answer.Feasible != 0 || len(answer.Best) != 0 {
				t.Errorf("got %+v, expected %q", answer, test.message)
			}
		})
	}
}

func TestNoNodesAtAll(t *testing.T) {
	answer := answers(t, pod("lonely", "1", ""))[0]
	if answer.Message != "no nodes available to schedule pods" || len(answer.Nodes) != 0 {
		t.Errorf("got %+v", answer)
	}
}

func TestNodesAreSortedAndExcludedOnesTold(t *testing.T) {
	spec := "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " +
		"[{matchFields: [{key: metadata.name, operator: In, values: [c]}]}]}}}"
	answer := answers(t, three+pod("pinned", "1", spec))[0]
	var got [][3]string
	for _, node := range answer.Nodes {
		got = append(got, [3]string{node.Node, node.Code, node.Plugin + strings.Join(node.Reasons, "; ")})
	}
	excluded := "node(s) didn't satisfy plugin(s) [NodeAffinity]"
	expected := [][3]string{
		{"a", "UnschedulableAndUnresolvable", excluded},
		{"b", "UnschedulableAndUnresolvable", excluded},
		{"c", "Success", ""},
	}
	if !reflect.DeepEqual(got, expected) || !reflect.DeepEqual(answer.Best, []string{"c"}) {
		t.Errorf("got %v, best %v", got, answer.Best)
	}
	if answer.Nodes[2].Total == nil || *answer.Nodes[2].Total == 0 {
		t.Error("the only feasible node has no score; expected one all the same")
	}
}

func TestRawScoresAreThoseBeforeNormalising(t *testing.T) {
	spec := "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
		"[{weight: 7, preference: {matchExpressions: [{key: disk, operator: Exists}]}}]}}"
	answer := answers(t, three+pod("choosy", "1", spec))[0]
	b, c := answer.Nodes[1], answer.Nodes[2]
	if b.Raw["NodeAffinity"] != 0 || c.Raw["NodeAffinity"] != 7 || c.Scores["NodeAffinity"] != 200 {
		t.Errorf("got %v and %v, expected 0, 7, and 100 times a weight of 2", b.Raw, c.Scores)
	}
	sum := int64(0)
	for _, score := range c.Scores {
		sum += score
	}
	if sum != *c.Total {
		t.Errorf("the scores make %d, the total is %d", sum, *c.Total)
	}
	if _, isThere := c.Raw["InterPodAffinity"]; isThere {
		t.Error("InterPodAffinity has a score; expected none, because it skips a pod without terms")
	}
}

func TestAGatedPodHasNoNodes(t *testing.T) {
	answer := answers(t, three+pod("gated", "1", "schedulingGates: [{name: wait}]"))[0]
	if !answer.Gated || answer.Plugin != "SchedulingGates" || len(answer.Nodes) != 0 || answer.Message != "" {
		t.Errorf("got %+v", answer)
	}
}

func TestPodsThatAreNotJudged(t *testing.T) {
	text := three + pod("other", "1", "schedulerName: other") + pod("bound", "1", "nodeName: b") + pod("mine", "1", "")
	code, out, problems := decideText(t, text)
	if code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"pod":"default/mine"`) {
		t.Errorf("exit code %d, got %s", code, out)
	}
	if !strings.Contains(problems, `pod default/other asks for scheduler "other"`) {
		t.Errorf("got %q, expected a warning", problems)
	}
}

func TestWhichPodsStandOnANode(t *testing.T) {
	on := func(status string) string {
		return strings.Replace(pod("standing", "3", "nodeName: b\nstatus: {"+status+"}"), "metadata: {",
			"metadata: {deletionTimestamp: 2024-01-01T00:00:00Z, ", 1)
	}
	cases := map[string]struct {
		status   string
		feasible int
	}{
		"a running pod that is being deleted does": {"phase: Running", 1},
		"a finished pod does not":                  {"phase: Succeeded", 2},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			answer := answers(t, three+on(test.status)+pod("new", "2", ""))[0]
			if answer.Feasible != test.feasible {
				t.Errorf("got %+v, expected %d feasible nodes", answer, test.feasible)
			}
		})
	}
}

func TestNominatedPodsCountByPriority(t *testing.T) {
	nominated := func(priority string) string {
		return pod("first", "3", "priority: "+priority+"\nstatus: {nominatedNodeName: b}")
	}
	for priority, feasible := range map[string]int{"5": 1, "0": 1, "-1": 2} {
		judged := answers(t, three+nominated(priority)+pod("second", "2", ""))
		if judged[0].Nominated != "b" || judged[1].Feasible != feasible {
			t.Errorf("priority %s: got %+v, expected %d feasible nodes", priority, judged[1], feasible)
		}
	}
}

func TestListsDocumentsAndJSONAreReadAlike(t *testing.T) {
	pods := []string{
		`{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "m", "image": "i"}]}}]}`,
		"kind: List\napiVersion: v1\nitems:\n- {kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {containers: [{name: m, image: i}]}}",
		"kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [{name: m, image: i}]}",
	}
	for _, text := range pods {
		if judged := answers(t, three+text); len(judged) != 1 || judged[0].Pod != "default/p" || judged[0].Feasible != 2 {
			t.Errorf("%s: got %+v", text, judged)
		}
	}
}

func TestAConfigurationIsUsed(t *testing.T) {
	path := write(t, "config.yaml", `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packing
  plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 3}], disabled: [{name: "*"}]}}
`)
	code, out, problems := decideText(t, three+pod("p", "1", "schedulerName: packing"), "--config", path)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, problems)
	}
	var answer judge.Answer
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	node := answer.Nodes[1]
	if len(node.Scores) != 1 || node.Scores["NodeResourcesFit"] != 3*node.Raw["NodeResourcesFit"] {
		t.Errorf("got %+v", node)
	}
}

func TestExtendersAreAsked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/filter":
			fmt.Fprint(out, `{"NodeNames": ["b", "c"], "FailedNodes": {"a": "not there"}}`)
		default:
			fmt.Fprint(out, `[{"Host": "c", "Score": 4}]`)
		}
	}))
	defer server.Close()
	path := write(t, "config.yaml", fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: %q, filterVerb: filter, prioritizeVerb: prioritize, weight: 5, nodeCacheCapable: true}
- {urlPrefix: "http://127.0.0.1:1", filterVerb: filter, ignorable: true}
`, server.URL))
	nodes := ""
	for _, name := range []string{"a", "b", "c"} {
		nodes += fmt.Sprintf("---\nkind: Node\nmetadata: {name: %s}\nstatus: {allocatable: {cpu: 4, memory: 4Gi, pods: 10}}\n", name)
	}
	code, out, problems := decideText(t, nodes+"---\n"+pod("p", "1", ""), "--config", path)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, problems)
	}
	var answer judge.Answer
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	taken, scored := answer.Nodes[0], answer.Nodes[2]
	if taken.Plugin != "Extender" || !slices.Equal(taken.Reasons, []string{"not there"}) || answer.Feasible != 2 {
		t.Errorf("got %+v", answer)
	}
	if scored.Raw[server.URL] != 4 || scored.Scores[server.URL] != 200 || !slices.Equal(answer.Best, []string{"c"}) {
		t.Errorf("got %+v", answer)
	}
}

func TestExitCodes(t *testing.T) {
	refused := write(t, "config.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: -1\n")
	classless := pod("p", "1", "priorityClassName: none")
	cases := map[string]struct {
		text      string
		arguments []string
		code      int
		says      string
	}{
		"a configuration that is refused":    {three, []string{"--config", refused}, 1, "parallelism"},
		"an unknown priority class":          {three + classless, nil, 1, "no PriorityClass with name none was found"},
		"two objects of a name":              {three + three, nil, 1, "a second Node /b"},
		"an object without a kind":           {"metadata: {name: x}", nil, 1, "has no kind"},
		"an unknown flag":                    {three, []string{"--nothing"}, 2, "nothing"},
		"help":                               {three, []string{"--help"}, 0, ""},
		"a cluster in which no pod waits":    {three, nil, 0, ""},
		"a kind that scheduling never reads": {"kind: Secret\napiVersion: v1\nmetadata: {name: x}", nil, 0, "scheduling reads no v1 Secret"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			code, _, problems := decideText(t, test.text, test.arguments...)
			if code != test.code || !strings.Contains(problems, test.says) {
				t.Errorf("exit code %d, %q; expected %d and %q", code, problems, test.code, test.says)
			}
		})
	}
	if code := run(nil, &bytes.Buffer{}, &bytes.Buffer{}); code != 2 {
		t.Errorf("no file: exit code %d, expected 2", code)
	}
}

func TestAsIsFillsNothingIn(t *testing.T) {
	spread := "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, " +
		"labelSelector: {}}]\n  schedulerName: default-scheduler"
	if filled := answers(t, three+pod("p", "1", spread))[0]; filled.Feasible != 2 {
		t.Errorf("filled in: got %+v, expected 2 feasible nodes", filled)
	}
	stored := strings.ReplaceAll(three, "capacity", "allocatable")
	stored = strings.ReplaceAll(stored, "memory: 8Gi", `memory: 8Gi, pods: "110"`)
	bare := answers(t, stored+pod("p", "1", spread), "--as-is")[0]
	if bare.Feasible != 0 || !strings.Contains(bare.Message, "missing required label") {
		t.Errorf("as is: got %+v, expected that the label of the host is missing", bare)
	}
}

func TestEachCaseOfAFolderIsJudgedByItself(t *testing.T) {
	folder := t.TempDir()
	files := map[string]string{
		"b.yaml":        three + pod("p", "1", ""),
		"a.yaml":        three + pod("p", "3", ""),
		"a.config.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: other}]\n",
		"c.yaml":        "kind: Pod\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, problems bytes.Buffer
	if code := run([]string{"--cases", folder}, &out, &problems); code != 0 {
		t.Fatalf("exit code %d: %s", code, &problems)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	beginnings := []string{`{"case":"a"}`, `{"case":"b","answers":[{"pod":"default/p",`, `{"case":"c","refused":"`}
	if len(lines) != len(beginnings) {
		t.Fatalf("%d lines: %s", len(lines), &out)
	}
	for i, beginning := range beginnings {
		if !strings.HasPrefix(lines[i], beginning) {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
	for _, arguments := range [][]string{{"--cases", folder, "file"}, {"--cases", folder, "--config", "file"}} {
		if code := run(arguments, &out, &problems); code != 2 {
			t.Errorf("%v: exit code %d, expected 2", arguments, code)
		}
	}
}

func TestPreemptionIsThePluginsOwnAndChangesNothing(t *testing.T) {
	text := `
kind: Node
apiVersion: v1
metadata: {name: a}
status: {capacity: {cpu: "4", memory: 8Gi}}
---
` + pod("old", "3", "nodeName: a") + pod("new", "3", "priority: 5") + pod("meek", "3", "preemptionPolicy: Never") +
		pod("again", "3", "priority: 5")
	told := map[string]*judge.Preemption{}
	for _, answer := range answers(t, text) {
		told[answer.Pod] = answer.Preemption
	}
	for _, name := range []string{"default/new", "default/again"} {
		found := told[name]
		if found == nil || found.Code != "Success" || found.Node != "a" || !slices.Equal(found.Tied, []string{"a"}) ||
			len(found.Candidates) != 1 || !slices.Equal(found.Candidates[0].Victims, []string{"default/old"}) {
			t.Errorf("%s: got %+v, expected that default/old goes from a", name, found)
		}
	}
	if found := told["default/meek"]; found == nil || found.Message != "preemption: not eligible due to preemptionPolicy=Never." {
		t.Errorf("got %+v, expected that the pod never preempts", found)
	}
}
