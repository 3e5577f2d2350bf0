// Portkey listens on all addresses and has no setting for it. This makes it listen on LISTEN_ADDRESS only.
'use strict';

const { Server } = require('node:net');

const listen = Server.prototype.listen;
Server.prototype.listen = function (port, host, ...rest) {
  return listen.call(this, port, host ?? process.env.LISTEN_ADDRESS, ...rest);
};
