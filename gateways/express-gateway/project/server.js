// Express Gateway is a library; this is the application around it. It reads the configuration in EG_CONFIG_DIR,
// creates the users listed in consumers.json, and serves until it is stopped.
'use strict';

const fs = require('fs');
const path = require('path');

if (process.argv[2] === '--version') {
  console.log(`express-gateway ${require('express-gateway/package.json').version}`);
  process.exit(0);
}

const directory = process.env.EG_CONFIG_DIR;
const shipped = path.join(path.dirname(require.resolve('express-gateway/package.json')), 'lib/config/models');

// Schemas of users and credentials, as shipped with Express Gateway.
fs.cpSync(shipped, path.join(directory, 'models'), { recursive: true });

async function addConsumers() {
  const file = path.join(directory, 'consumers.json');
  if (!fs.existsSync(file)) return;
  const { user, credential } = require('express-gateway/lib/services');
  for (const consumer of JSON.parse(fs.readFileSync(file, 'utf8'))) {
    const added = await user.insert({ username: consumer.name, firstname: consumer.name, lastname: 'consumer' });
    await credential.insertCredential(added.id, 'basic-auth', { password: consumer.password });
  }
}

async function main() {
  await addConsumers();
  const [gateway] = await require('express-gateway')().load(directory).run();
  const idle = Number(process.env.CLIENT_IDLE_MS || 0);
  if (idle > 0) {
    for (const server of [gateway.app, gateway.httpsApp]) {
      if (server) server.keepAliveTimeout = idle;
    }
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
