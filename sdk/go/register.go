//go:build !wasip1

package plugin

// Register does nothing outside of a module, as in tests.
func Register(Plugin) {}
