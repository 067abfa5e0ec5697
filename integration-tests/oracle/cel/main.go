// Program cel evaluates CEL selectors of devices with k8s.io/dynamic-resource-allocation/cel, in the environment for stored
// expressions.
//
//	cel [--devices FILE] < CASES
//	cel --declarations
//
// Each line is a case: {"expression": TEXT, "device": DEVICE}. A device is an object, or the name of one in FILE. The output
// has one answer per line, in the order of the cases.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations,omitempty"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity,omitempty"`
}

type question struct {
	Expression string          `json:"expression"`
	Device     json.RawMessage `json:"device"`
}

// answer is the result: "true", "false", "compile" or "runtime", the last two with an error text, or "panic" if compiling panics. Cost is
// the evaluation's.
type answer struct {
	Verdict string  `json:"verdict"`
	Text    string  `json:"text,omitempty"`
	Cost    *uint64 `json:"cost,omitempty"`
}

// features are the defaults of kube-scheduler 1.37.2. Stored expressions do not depend on them.
var features = dracel.Features{EnableConsumableCapacity: true}

func main() {
	devices := flag.String("devices", "", "a file with devices by name")
	declarations := flag.Bool("declarations", false, "print the functions of the environment instead")
	flag.Parse()
	run := func() error { return answerAll(*devices, os.Stdin, os.Stdout) }
	if *declarations {
		run = func() error { return declare(os.Stdout) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cel:", err)
		os.Exit(1)
	}
}

func answerAll(devices string, in io.Reader, out io.Writer) error {
	named := map[string]device{}
	if devices != "" {
		text, err := os.ReadFile(devices)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &named); err != nil {
			return fmt.Errorf("%s: %w", devices, err)
		}
	}
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	decoder := json.NewDecoder(in)
	for line := 1; ; line++ {
		var asked question
		if err := decoder.Decode(&asked); err == io.EOF {
			return buffered.Flush()
		} else if err != nil {
			return fmt.Errorf("case %d: %w", line, err)
		}
		which, err := find(named, asked.Device)
		if err != nil {
			return fmt.Errorf("case %d: %w", line, err)
		}
		if err := encoder.Encode(judge(asked.Expression, which)); err != nil {
			return err
		}
	}
}

func find(named map[string]device, text json.RawMessage) (device, error) {
	var name string
	if json.Unmarshal(text, &name) == nil {
		found, ok := named[name]
		if !ok {
			return device{}, fmt.Errorf("no device is called %q", name)
		}
		return found, nil
	}
	var given device
	return given, json.Unmarshal(text, &given)
}

// judge evaluates like the allocator, without cost estimation.
func judge(expression string, which device) (given answer) {
	defer func() {
		if cause := recover(); cause != nil {
			given = answer{Verdict: "panic", Text: fmt.Sprint(cause)}
		}
	}()
	compiled := dracel.GetCompiler(features).CompileCELExpression(expression, dracel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return answer{Verdict: "compile", Text: compiled.Error.Error()}
	}
	matches, details, err := compiled.DeviceMatches(context.Background(), dracel.Device{
		Driver:                   which.Driver,
		AllowMultipleAllocations: which.AllowMultipleAllocations,
		Attributes:               which.Attributes,
		Capacity:                 which.Capacity,
	})
	var cost *uint64
	if details != nil {
		cost = details.ActualCost()
	}
	if err != nil {
		return answer{Verdict: "runtime", Text: err.Error(), Cost: cost}
	}
	return answer{Verdict: fmt.Sprint(matches), Cost: cost}
}
