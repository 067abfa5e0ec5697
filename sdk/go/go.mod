module flotilla.dev/plugin

go 1.24
