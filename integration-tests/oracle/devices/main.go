// Program devices runs kube-scheduler's allocator for claims on a node.
//
//	devices FILE...
//
// Each line of the files is a case in JSON: a node, the classes, slices and claims of the cluster, and existing allocations.
// "-" is the standard input. The output has one answer per line, in the order of the cases: the allocations or an error, and
// the number of steps of the search. Random share IDs are replaced by "share-0" and so on.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

// defaults are the features of this kube-scheduler release by default.
func defaults() structured.Features {
	return structured.Features{
		AdminAccess:            true,
		ConsumableCapacity:     true,
		DeviceBindingAndStatus: true,
		DeviceTaints:           true,
		PartitionableDevices:   true,
		PrioritizedList:        true,
	}
}

// Longer searches have no answer; callers skip them.
const patience = time.Minute

type device struct {
	Driver   string                                          `json:"driver"`
	Pool     string                                          `json:"pool"`
	Device   string                                          `json:"device"`
	Share    string                                          `json:"share,omitempty"`
	Capacity map[resourceapi.QualifiedName]resource.Quantity `json:"capacity,omitempty"`
}

type question struct {
	Name string `json:"name"`
	// Fields that differ from the default.
	Features json.RawMessage              `json:"features,omitempty"`
	Node     *corev1.Node                 `json:"node"`
	Classes  []*resourceapi.DeviceClass   `json:"classes,omitempty"`
	Slices   []*resourceapi.ResourceSlice `json:"slices,omitempty"`
	Claims   []*resourceapi.ResourceClaim `json:"claims,omitempty"`
	// Devices allocated to one claim each.
	Allocated []device `json:"allocated,omitempty"`
	// Devices shared by several claims.
	Shared []device `json:"shared,omitempty"`
	// Consumed capacity of devices.
	Consumed []device `json:"consumed,omitempty"`
}

type answer struct {
	Name        string                         `json:"name"`
	Error       string                         `json:"error,omitempty"`
	OnNode      bool                           `json:"onNode,omitempty"`
	TimedOut    bool                           `json:"timedOut,omitempty"`
	Panicked    bool                           `json:"panicked,omitempty"`
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
	Steps       int64                          `json:"steps,omitempty"`
}

func main() {
	klog.SetLogger(klog.Logger{})
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for _, path := range os.Args[1:] {
		if err := answerFile(path, encoder); err != nil {
			fmt.Fprintf(os.Stderr, "devices: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
	if err := output.Flush(); err != nil {
		fmt.Fprintf(os.Stderr, "devices: %v\n", err)
		os.Exit(1)
	}
}

func answerFile(path string, encoder *json.Encoder) error {
	file := os.Stdin
	if path != "-" {
		opened, err := os.Open(path)
		if err != nil {
			return err
		}
		defer opened.Close()
		file = opened
	}
	decoder := json.NewDecoder(bufio.NewReader(file))
	for {
		var asked question
		switch err := decoder.Decode(&asked); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		said, err := allocate(&asked)
		if err != nil {
			return fmt.Errorf("%s: %w", asked.Name, err)
		}
		if err := encoder.Encode(said); err != nil {
			return err
		}
	}
}

// allocate runs the allocator, and recovers from panics on cases that no API server accepts.
func allocate(asked *question) (said *answer, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			said = &answer{Name: asked.Name, Error: fmt.Sprint(reason), Panicked: true}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	classes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, class := range asked.Classes {
		if err := classes.Add(class); err != nil {
			return nil, err
		}
	}
	features := defaults()
	if len(asked.Features) > 0 {
		if err := json.Unmarshal(asked.Features, &features); err != nil {
			return nil, err
		}
	}
	lister := classLister{resourcelisters.NewDeviceClassLister(classes), asked.Classes}
	compiled := cel.NewCache(10, cel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	})
	allocator, err := structured.NewAllocator(ctx, features, allocated(asked, features), lister, asked.Slices, compiled)
	if err != nil {
		return nil, err
	}
	result, err := allocator.Allocate(ctx, asked.Node, asked.Claims)
	said = &answer{Name: asked.Name, Allocations: result, Steps: steps(allocator)}
	if err != nil {
		said.Error = err.Error()
		said.OnNode = errors.Is(err, structured.ErrFailedAllocationOnNode)
		said.TimedOut = errors.Is(err, context.DeadlineExceeded)
	}
	shares := 0
	for _, allocation := range result {
		for index := range allocation.Devices.Results {
			if device := &allocation.Devices.Results[index]; device.ShareID != nil {
				id := types.UID(fmt.Sprintf("share-%d", shares))
				device.ShareID = &id
				shares++
			}
		}
	}
	return said, nil
}

// allocated is the state that the plugin gathers. Without consumable capacity, each device in use is allocated to one claim.
func allocated(asked *question, features structured.Features) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, device := range asked.Allocated {
		state.AllocatedDevices.Insert(device.id())
	}
	if !features.ConsumableCapacity {
		for _, device := range slices.Concat(asked.Shared, asked.Consumed) {
			state.AllocatedDevices.Insert(device.id())
		}
		return state
	}
	for _, device := range asked.Shared {
		share := types.UID(device.Share)
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device.id(), &share))
	}
	for _, device := range asked.Consumed {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device.id(), device.Capacity))
	}
	return state
}

func (d *device) id() structured.DeviceID {
	return structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
}

// steps is the number of recursive calls of the search, from a method of a type that is not exported.
func steps(allocator structured.Allocator) int64 {
	method := reflect.ValueOf(allocator).MethodByName("GetStats")
	if !method.IsValid() {
		return 0
	}
	return method.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
}

// classLister lists in the case's order, and finds like kube-scheduler's lister.
type classLister struct {
	resourcelisters.DeviceClassLister
	classes []*resourceapi.DeviceClass
}

func (l classLister) List() ([]*resourceapi.DeviceClass, error) {
	return l.classes, nil
}
