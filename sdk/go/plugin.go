// Package plugin is the SDK for Flotilla plugins in standard Go, compiled to WebAssembly.
//
// A plugin declares the fields that it reads ([Description]) and is then called with batches of nodes. A filter returns the
// number of a reason per node, 0 for none; a score returns a number. Nodes are columns ([Nodes]). Nodes share equal texts, so a
// plugin evaluates each value once.
//
// A plugin is a pure function: it keeps no state between calls, and its result for a node depends only on the pod, the
// configuration and that node. Flotilla evaluates some nodes twice and stops a plugin with different results.
//
// Register the plugin in an init function of package main, and build with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o plugin.wasm .
package plugin

import "encoding/json"

// ABI is the ABI version for batches.
const ABI = 1

// Plugin is implemented by a plugin.
type Plugin interface {
	// Describe returns the fields and results of the plugin.
	Describe() Description
	// Filter filters nodes: out has a byte per node, 0 for a feasible node, otherwise the number of a reason, from 1. An error fails
	// the attempt.
	Filter(pod *Pod, config string, nodes *Nodes, out []byte) error
	// Score scores nodes: 0 to 100, or any number from 0 if Description.Normalize scales scores. An error fails the attempt.
	Score(pod *Pod, config string, nodes *Nodes, out []int64) error
}

// Description has the fields and results of a plugin. docs/tasks/plugins.md lists the fields.
type Description struct {
	// PodFields are the fields of the pod. Pods with equal fields share results.
	PodFields []string `json:"podFields,omitempty"`
	// NodeFields are the fields of nodes: the columns, in this order.
	NodeFields []string `json:"nodeFields,omitempty"`
	// Reasons are the reasons of the filter, numbered from 1.
	Reasons []Reason `json:"reasons,omitempty"`
	// Events are kube-scheduler's labels of events that may make a rejected pod schedulable, such as NodeAdd; none for any event.
	Events []string `json:"events,omitempty"`
	// Normalize is the normalization of scores to 0 to 100: "none", the default; "default" if the maximum becomes 100, "reverse" if
	// it becomes 0.
	Normalize string `json:"normalize,omitempty"`
}

// Reason is a reason for rejecting a node.
type Reason struct {
	// Text is the message in kube-scheduler's form: node(s) ...
	Text string `json:"text"`
	// Unresolvable means that preemption cannot help.
	Unresolvable bool `json:"unresolvable,omitempty"`
}

// Pod has the described fields of the pod.
type Pod struct {
	Metadata Metadata `json:"metadata"`
	Spec     Spec     `json:"spec"`
}

// Metadata is the metadata of a pod.
type Metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
}

// Spec is the specification of a pod.
type Spec struct {
	NodeSelector map[string]string `json:"nodeSelector"`
	// Affinity has only nodeAffinity.
	Affinity    json.RawMessage   `json:"affinity"`
	Tolerations []json.RawMessage `json:"tolerations"`
	// Containers has one entry per image; the first has the requests and host ports of the pod.
	Containers []json.RawMessage `json:"containers"`
}

// Nodes holds nodes as columns.
type Nodes struct {
	block []byte
}

// Texts is a column of texts.
type Texts struct {
	numbers []byte
	texts   []string
}

// Numbers is a column of numbers.
type Numbers struct {
	bytes []byte
}

// NodesOf returns the nodes of a batch in the host's encoding.
func NodesOf(block []byte) *Nodes { return &Nodes{block} }

// Len returns the number of nodes.
func (n *Nodes) Len() int { return n.word(0) }

// Texts returns the column with this index in the description: names and values of labels as texts; labels, taints, images and
// allocatable resources as JSON.
func (n *Nodes) Texts(field int) *Texts {
	values, list, count := n.column(field, 0)
	texts := make([]string, count)
	for place := range texts {
		texts[place] = n.text(n.wordAt(list+8*place), n.wordAt(list+8*place+4))
	}
	return &Texts{n.block[values : values+4*n.Len()], texts}
}

// Numbers returns the column with this index in the description: spec.unschedulable as 0 or 1, and resources, CPU in millicores.
func (n *Nodes) Numbers(field int) *Numbers {
	values, _, _ := n.column(field, 1)
	return &Numbers{n.block[values : values+8*n.Len()]}
}

func (n *Nodes) column(field, kind int) (values, list, count int) {
	if field >= n.word(6) {
		panic("there is no such column")
	}
	at := n.word(5) + 16*field
	if n.wordAt(at) != kind {
		panic("the column is of another kind")
	}
	return n.wordAt(at + 4), n.wordAt(at + 8), n.wordAt(at + 12)
}

func (n *Nodes) text(at, size int) string { return string(n.block[at : at+size]) }

func (n *Nodes) word(number int) int { return n.wordAt(4 * number) }

func (n *Nodes) wordAt(at int) int { return int(word(n.block[at:])) }

func word(bytes []byte) uint32 {
	_ = bytes[3]
	return uint32(bytes[0]) | uint32(bytes[1])<<8 | uint32(bytes[2])<<16 | uint32(bytes[3])<<24
}

// Get returns the text of a node, and whether it has one.
func (t *Texts) Get(node int) (string, bool) {
	number := word(t.numbers[4*node:])
	if int(number) >= len(t.texts) {
		return "", false
	}
	return t.texts[number], true
}

// Each writes the result of of for each node's text into the bytes that are still 0. It calls of once per distinct text.
func (t *Texts) Each(of func(text string, ok bool) byte, out []byte) {
	none := of("", false)
	ofTexts := make([]byte, len(t.texts))
	for place, text := range t.texts {
		ofTexts[place] = of(text, true)
	}
	for node := range out {
		if out[node] != 0 {
			continue
		}
		if number := word(t.numbers[4*node:]); int(number) < len(ofTexts) {
			out[node] = ofTexts[number]
		} else {
			out[node] = none
		}
	}
}

// Get returns the number of a node.
func (n *Numbers) Get(node int) int64 {
	low, high := word(n.bytes[8*node:]), word(n.bytes[8*node+4:])
	return int64(uint64(high)<<32 | uint64(low))
}

// Filter runs a plugin's filter on the batch in a block, also for tests.
func Filter(p Plugin, block []byte) error {
	nodes, pod, config, err := input(block)
	if err != nil {
		return err
	}
	at := nodes.word(7)
	return p.Filter(pod, config, nodes, block[at:at+nodes.Len()])
}

// Score runs a plugin's score on the batch in a block, also for tests.
func Score(p Plugin, block []byte) error {
	nodes, pod, config, err := input(block)
	if err != nil {
		return err
	}
	scores := make([]int64, nodes.Len())
	if err := p.Score(pod, config, nodes, scores); err != nil {
		return err
	}
	at := nodes.word(7)
	for node, score := range scores {
		for place := range 8 {
			block[at+8*node+place] = byte(uint64(score) >> (8 * place))
		}
	}
	return nil
}

func input(block []byte) (*Nodes, *Pod, string, error) {
	nodes, pod := NodesOf(block), &Pod{}
	if err := json.Unmarshal([]byte(nodes.text(nodes.word(1), nodes.word(2))), pod); err != nil {
		return nil, nil, "", err
	}
	return nodes, pod, nodes.text(nodes.word(3), nodes.word(4)), nil
}
