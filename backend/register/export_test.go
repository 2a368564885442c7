package register

// NewDriver is newDriver, for the tests of drivers.
var NewDriver = newDriver
