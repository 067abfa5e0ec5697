//go:build !wasip1

package plugin

// Register does nothing where the plugin is no module, as in its tests.
func Register(Plugin) {}
