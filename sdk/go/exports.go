//go:build wasip1

package plugin

import (
	"encoding/json"
	"unsafe"
)

var (
	registered Plugin
	described  []byte
	block      []uint64
)

// Register sets the module's plugin. Call it in an init function of package main.
func Register(plugin Plugin) { registered = plugin }

//go:wasmimport k8s.io/scheduler result.status_reason
func statusReason(text, size uint32)

//go:wasmexport flotilla_abi
func flotillaABI() int32 { return ABI }

//go:wasmexport flotilla_describe
func flotillaDescribe() int64 {
	described, _ = json.Marshal(registered.Describe())
	return int64(address(described))<<32 | int64(len(described))
}

//go:wasmexport flotilla_alloc
func flotillaAlloc(size int32) int32 {
	block = make([]uint64, (size+7)/8)
	return int32(uintptr(unsafe.Pointer(unsafe.SliceData(block))))
}

//go:wasmexport flotilla_filter
func flotillaFilter(int32) int32 { return told(Filter(registered, bytes())) }

//go:wasmexport flotilla_score
func flotillaScore(int32) int32 { return told(Score(registered, bytes())) }

// bytes returns the block with the host's batch.
func bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(block))), 8*len(block))
}

func told(err error) int32 {
	if err == nil {
		return 0
	}
	text := []byte(err.Error())
	statusReason(address(text), uint32(len(text)))
	return 1
}

func address(bytes []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))) }
