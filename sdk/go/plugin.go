// Package plugin is for plugins for Flotilla in WebAssembly, in standard Go.
//
// A plugin says once what it reads ([Description]), and is then asked about batches of nodes: a filter gives the number of a
// reason for each node, 0 for none, a score gives a number. Nodes are columns ([Nodes]); a text that many nodes share
// is there once, so that a plugin looks at each value once.
//
// A plugin is a pure function: it keeps nothing between calls, and what it says of a node depends on the pod, the configuration
// and that node alone. Flotilla asks some nodes twice and stops a plugin that answers differently.
//
// Register the plugin in an init function of package main, and build with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o plugin.wasm .
package plugin

import "encoding/json"

// ABI is the version of the ABI for batches.
const ABI = 1

// Plugin is what a module is asked.
type Plugin interface {
	// Describe says what the plugin reads and answers.
	Describe() Description
	// Filter judges nodes: out has a byte for each, which is 0 for a node that will do and else the number of a reason, from 1.
	// With an error the attempt fails.
	Filter(pod *Pod, config string, nodes *Nodes, out []byte) error
	// Score scores nodes: 0 to 100, or any number from 0 where Description.Normalize scales them. With an error the attempt fails.
	Score(pod *Pod, config string, nodes *Nodes, out []int64) error
}

// Description is what a plugin reads and answers. docs/plugins.md has the fields that there are.
type Description struct {
	// PodFields are the fields of the pod: pods that agree in them share their verdicts.
	PodFields []string `json:"podFields,omitempty"`
	// NodeFields are the fields of nodes: the columns, in this order.
	NodeFields []string `json:"nodeFields,omitempty"`
	// Reasons are why the filter refuses nodes, from number 1 on.
	Reasons []Reason `json:"reasons,omitempty"`
	// Events are kube-scheduler's labels of the events that may help a pod that was refused, such as NodeAdd; none for any event.
	Events []string `json:"events,omitempty"`
	// Normalize is how scores become scores of 0 to 100: "none" if they are, which is the default; "default" if the largest becomes
	// 100, "reverse" if it becomes 0.
	Normalize string `json:"normalize,omitempty"`
}

// Reason is why a filter refuses a node.
type Reason struct {
	// Text is as kube-scheduler has it: node(s) ...
	Text string `json:"text"`
	// Unresolvable says that taking pods away from the node would not help.
	Unresolvable bool `json:"unresolvable,omitempty"`
}

// Pod is the pod, as far as the description names its fields.
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
	// Affinity has nodeAffinity alone.
	Affinity    json.RawMessage   `json:"affinity"`
	Tolerations []json.RawMessage `json:"tolerations"`
	// Containers are one for each image; the first has the requests and host ports of the pod.
	Containers []json.RawMessage `json:"containers"`
}

// Nodes are nodes, as columns.
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

// NodesOf gives the nodes of a batch as the host writes it.
func NodesOf(block []byte) *Nodes { return &Nodes{block} }

// Len is how many nodes there are.
func (n *Nodes) Len() int { return n.word(0) }

// Texts gives the column of the field at this place of the description, which has texts: names and values of labels; whole
// labels, taints, images and allocatable resources as JSON.
func (n *Nodes) Texts(field int) *Texts {
	values, list, count := n.column(field, 0)
	texts := make([]string, count)
	for place := range texts {
		texts[place] = n.text(n.wordAt(list+8*place), n.wordAt(list+8*place+4))
	}
	return &Texts{n.block[values : values+4*n.Len()], texts}
}

// Numbers gives the column of the field at this place of the description, which has numbers: spec.unschedulable as 0 or 1, and
// resources, CPU in thousandths of a core.
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

// Get gives the text of a node, and whether it has one.
func (t *Texts) Get(node int) (string, bool) {
	number := word(t.numbers[4*node:])
	if int(number) >= len(t.texts) {
		return "", false
	}
	return t.texts[number], true
}

// Each writes what of says of the text of each node, which is asked once for each text that differs, into the bytes that are
// still 0.
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

// Get gives the number of a node.
func (n *Numbers) Get(node int) int64 {
	low, high := word(n.bytes[8*node:]), word(n.bytes[8*node+4:])
	return int64(uint64(high)<<32 | uint64(low))
}

// Filter has a plugin judge the batch in a block. Tests of plugins may call it.
func Filter(p Plugin, block []byte) error {
	nodes, pod, config, err := input(block)
	if err != nil {
		return err
	}
	at := nodes.word(7)
	return p.Filter(pod, config, nodes, block[at:at+nodes.Len()])
}

// Score has a plugin score the batch in a block. Tests of plugins may call it.
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
